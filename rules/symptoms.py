"""Messages of OpenVINO and GenAI 2026.4, and checks, with the rules that explain them."""

from __future__ import annotations

from irtools.authoring import Symptom

LIMITS = (
    Symptom(
        "Encoded vision tokens must contain",
        explanation="the tokenizer of the export splits the image tokens of its family, but GenAI needs each as one "
        "token, even for text; use the tokenizer of a full-size model",
    ),
    Symptom(
        "Unsupported '.*' VLM model type",
        explanation="GenAI 2026.4 does not run this vision-language family (EXP006)",
    ),
    Symptom(
        "no text is tokenized to the token ids",
        explanation="GenAI accepts only text for a vision-language export; give --prompt instead of --token-ids",
    ),
)
"""Messages about limits of the export's family or size, not about a fault of the export."""

MESSAGES = (
    Symptom("Could not find a model in the directory", ("EXP001", "DFL017")),
    Symptom("models_path.*does not exist", ("SRV003",)),
    Symptom("layer.* is inconsistent!", ("IR013",)),
    Symptom("Attempt to access node", ("IR015",)),
    Symptom("from unsupported opset|contain the operation with type", ("IR019", "IR022", "IR023", "EXP024")),
    Symptom("Tokenizers for draft and main models are different", ("DFL042", "DFL043")),
    Symptom("linear-attention validation window", ("DFL046",)),
    Symptom("not supported for models with embeddings", ("DFL015",)),
    Symptom("openvino_tokenizer|Tokenizer::encode|detokenizer|Tokenizer::decode", ("EXP003", "DFL041", "IR")),
    Symptom(r"json.exception|Could not convert to|\bstoi\b", ("DFL042", "DFL045", "EXP010")),
    Symptom("[Cc]hat.?template (wasn't found|must not be empty)|get_chat_template", ("EXP027", "EXP011")),
    Symptom("Expected (closing|block keyword|value expression)|Unterminated (for|if|set|macro)", ("EXP025",)),
    Symptom("Minja", ("EXP028", "EXP029")),
    Symptom("chat_template", ("EXP010", "EXP011", "EXP025")),
    Symptom("Axis -?[0-9]+ out of the tensor rank", ("IR024",)),
    Symptom("text embeddings model", ("EXP004", "MTP006", "DFL012", "DFL016")),
    Symptom("VLM draft|inputs_embeds-native", ("DFL012",)),
    Symptom("last_hidden_state", ("MTP013", "MTP007", "DFL028", "DFL021")),
    Symptom("produced by a MatMul|Expected the main model", ("MTP050", "DFL010", "RUN001", "RUN010")),
    Symptom("input_ids or input_embeds", ("MTP010", "RUN008", "DFL024", "DFL045")),
    Symptom(
        "eagle3 is expected|num_decoder_layers|deduce layers|number of extracted hidden states|convert to: i from",
        ("DFL023", "DFL005", "DFL021"),
    ),
    Symptom("stop_token_ids", ("DFL035",)),
    Symptom("FC weights", ("DFL026", "DFL024")),
    Symptom("could not convert to bool", ("DFL001", "DFL022")),
    Symptom("incompatible MatMul|hidden size mismatch", ("DFL027", "DFL009")),
    Symptom(
        "hidden_states_decoder_layers|Eagle3 fallback|hidden.?state.*(layer|producer)",
        ("HID", "DFL013", "DFL020", "DFL021"),
    ),
    Symptom("dflash|target_layer_ids|mask_token_id", ("DFL", "MTP015")),
    Symptom("stateful|get_variables|keeps no state", ("MTP020", "RUN002", "DFL033", "DFL045")),
    Symptom(
        "ScaledDotProductAttention|SDPAToPagedAttention|paged",
        ("MTP030", "MTP032", "RUN003", "RUN005", "DFL033", "DFL045"),
    ),
    Symptom("Port for tensor name", ("MTP010", "RUN007", "RUN008", "DFL006", "DFL024", "RUN001", "DFL045")),
    Symptom(
        "ParameterMismatch|element.?type|precision|tensor type",
        ("MTP015", "RUN012", "DFL007", "DFL024", "DFL025", "DFL029", "RUN014", "RUN015", "MTP016", "DFL045"),
    ),
    Symptom(
        "rank|shape|dimension",
        (
            *("MTP016", "MTP017", "MTP018", "RUN013", "RUN014", "RUN015", "DFL007", "DFL008", "DFL009"),
            *("DFL022", "DFL025", "DFL027", "DFL034"),
            *("HID014", "EXP023", "IR009", "IR024", "IR025"),
        ),
    ),
    Symptom("enable_prefix_caching|prefix caching", ("RUN009",)),
    Symptom(
        "could not open|cannot open|no such file|not exist|Failed to open|can't open",
        ("IR006", "EXP001", "EXP005", "DFL017", "MTP"),
    ),
    Symptom("config.json|preprocessor|parse error|json", ("EXP010", "EXP011")),
    Symptom("model type", ("EXP006",)),
    Symptom(r"\.bin|weights|Constant|Incorrect", ("IR002", "IR006", "IR007", "IR009", "IR024", "IR025")),
)

CHECKS = (
    Symptom(check="head/port names", rules=("MTP010", "MTP013")),
    Symptom(check="head/port widths", rules=("MTP018",)),
    Symptom(check="head/hand-over", rules=("MTP051",)),
    Symptom(check="head/rotary", explanation="MTP052 compares the dimension"),
    Symptom(check="head/hidden-states", rules=("MTP035",)),
    Symptom(check="head/embeddings", rules=("MTP035",)),
    Symptom(check="head/positions", rules=("MTP035",)),
    Symptom(check="head/input-norms", rules=("MTP036",)),
    Symptom(check="head/final-norm", rules=("MTP037",)),
    Symptom(check="head/wiring exchanged", rules=("MTP034",)),
    Symptom(check="head/precision", rules=("QNT010",)),
    Symptom(check="head/no block", rules=("MTP030", "MTP037")),
    Symptom(check="mtp/head", rules=("MTP001", "MTP005")),
    Symptom(check="eagle3/guess", rules=("DFL020",)),
    Symptom(check="runtime/conversion", rules=("RUN003", "RUN004")),
    Symptom(check="runtime/tokenizer", rules=("EXP003",)),
    Symptom(check="runtime/acceptance", rules=("MTP", "DFL", "HID")),
)
