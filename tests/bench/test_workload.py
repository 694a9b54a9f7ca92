import json

import pytest

from irtools.bench.workload import CLASSES, Prompt, filler, of_classes, padded, read_prompts, shipped
from irtools.errors import OptionError


def test_every_class_has_prompts_and_the_long_one_is_long():
    prompts = shipped()
    assert tuple(dict.fromkeys(prompt.kind for prompt in prompts)) == CLASSES
    assert min(len(one.text) for one in prompts if one.kind == "long") > 20 * max(
        len(one.text) for one in prompts if one.kind == "chat"
    )
    assert {one.kind for one in of_classes(prompts, ("chat", "code"))} == {"code", "chat"}


def test_a_file_of_text_has_a_prompt_in_each_line(tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_text("one\n\ntwo words\n")
    assert [prompt.text for prompt in read_prompts(path)] == ["one", "two words"]


def test_a_file_of_json_lines_has_classes_system_messages_and_images(tmp_path):
    path = tmp_path / "prompts.jsonl"
    (tmp_path / "cat.png").write_bytes(b"")
    lines = [
        {"class": "code", "text": "def f():"},
        {"class": "chat", "text": "Hello", "system": "Be brief."},
        {"text": "What is this?", "image": "cat.png"},
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    assert read_prompts(path) == (
        Prompt("code", "def f():"),
        Prompt("chat", "Hello", "Be brief."),
        Prompt("prompts", "What is this?", image=str(tmp_path / "cat.png")),
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "no prompts"),
        ('{"text": 1}', "values are texts"),
        ('{"txt": "a"}', "no key 'txt'"),
        ('{"class": "code"}', "has no text"),
        ('{"text": "a"', "not valid JSON"),
        ('{"text": "a", "image": "none.png"}', "no image"),
    ],
)
def test_a_faulty_file_is_refused_with_the_line(tmp_path, content, words):
    path = tmp_path / "prompts.jsonl"
    path.write_text(content)
    with pytest.raises(OptionError, match=words):
        read_prompts(path)


def test_padding_reaches_the_length_and_keeps_the_prompt_at_the_end():
    given = (Prompt("code", "def f():"), Prompt("code", "word " * 900))
    lengths = [len(text.split()) for text in (*(prompt.text for prompt in given), filler())]
    short, long = padded(given, 800, lengths)
    assert 800 <= len(short.text.split()) < 1000
    assert short.text.endswith("def f():")
    assert long.text == "word " * 900
