#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use serde::Deserialize;

use super::*;

#[derive(Debug, Deserialize, PartialEq, Clone)]
struct Item {
    text: String,
    #[serde(default, deserialize_with = "de::number")]
    importance: f64,
    #[serde(default, deserialize_with = "de::indices")]
    sources: Vec<usize>,
}

fn texts(reply: &str) -> Result<Vec<String>, String> {
    parse_list::<Item>(reply, "memories").map(|items| items.into_iter().map(|item| item.text).collect())
}

#[test]
fn a_list_is_read_through_everything_small_models_do() {
    let cases = [
        ("as asked", r#"{"memories":[{"text":"a"},{"text":"b"}]}"#),
        ("fenced", "```json\n{\"memories\":[{\"text\":\"a\"},{\"text\":\"b\"}]}\n```"),
        ("fenced, other tag", "```jsonc\n[{\"text\":\"a\"},{\"text\":\"b\"}]\n```\nDone."),
        ("fence that is never closed", "```\n{\"memories\":[{\"text\":\"a\"},{\"text\":\"b\"}]}"),
        (
            "thinking",
            "<think>perhaps {\"memories\":[]}?</think>{\"memories\":[{\"text\":\"a\"},{\"text\":\"b\"}]}",
        ),
        ("thinking, opened by the template", "so {\"x\": \n</think>\n[{\"text\":\"a\"},{\"text\":\"b\"}]"),
        ("thinking, never closed", "<think>\nIt is [{\"text\":\"a\"},{\"text\":\"b\"}]"),
        ("another tag", "<reasoning>[{\"text\":\"no\"}]</reasoning>[{\"text\":\"a\"},{\"text\":\"b\"}]"),
        (
            "channels",
            "<|channel|>analysis<|message|>{\"memories\":[]}?<|end|><|start|>assistant<|channel|>final<|message|>\
             {\"memories\":[{\"text\":\"a\"},{\"text\":\"b\"}]}",
        ),
        ("thinking in brackets", "[THINK]{\"memories\":[]}[/THINK][{\"text\":\"a\"},{\"text\":\"b\"}]"),
        (
            "text around",
            "Sure! Here [1] {sic}: {\"memories\":[{\"text\":\"a\"},{\"text\":\"b\"}]} Hope (this) helps :]",
        ),
        (
            "the last one counts",
            "{\"memories\":[{\"text\":\"x\"}]} No: {\"memories\":[{\"text\":\"a\"},{\"text\":\"b\"}]}",
        ),
        ("trailing commas", r#"{"memories":[{"text":"a",},{"text":"b",},],}"#),
        ("comments", "{\"memories\":[ // two\n{\"text\":\"a\"}, /* and ] */ {\"text\":\"b\"}]}"),
        ("single quotes", "{'memories':[{'text':'a'},{'text':'b'}]}"),
        ("bare keys", "{memories:[{text:\"a\"},{text:\"b\"}]}"),
        ("smart quotes", "{“memories”:[{“text”:“a”},{“text”:“b”}]}"),
        ("Python", "{'memories':[{'text':'a','importance':None,'pin':True},{'text':'b'}]}"),
        ("a bare list", r#"[{"text":"a"},{"text":"b"}]"#),
        ("a list around the object", r#"[{"memories":[{"text":"a"},{"text":"b"}]}]"#),
        ("another name", r#"{"results":[{"text":"a"},{"text":"b"}]}"#),
        ("a line an object", "{\"text\":\"a\"}\n{\"text\":\"b\"}\n"),
        ("objects with commas", "{\"text\":\"a\"}, {\"text\":\"b\"}"),
        ("JSON in a string", r#""{\"memories\":[{\"text\":\"a\"},{\"text\":\"b\"}]}""#),
        ("byte order mark", "\u{feff}{\"memories\":[{\"text\":\"a\"},{\"text\":\"b\"}]}"),
    ];
    for (case, reply) in cases {
        assert_eq!(texts(reply), Ok(vec!["a".to_owned(), "b".to_owned()]), "{case}");
    }
}

#[test]
fn one_item_or_none_is_a_list_too() {
    assert_eq!(texts(r#"{"text":"a"}"#), Ok(vec!["a".to_owned()]));
    assert_eq!(texts(r#"{"memories":{"text":"a"}}"#), Ok(vec!["a".to_owned()]));
    assert_eq!(texts(r#"Nothing: {"memories":[]}"#), Ok(vec![]));
    assert_eq!(texts(r#"{"memories":null}"#), Ok(vec![]));
    assert_eq!(texts("[]"), Ok(vec![]));
}

#[test]
fn strings_keep_what_they_hold() {
    let cases = [
        (
            r#"{"memories":[{"text":"say <think>no</think> to ```fences``` {x}"}]}"#,
            "say <think>no</think> to ```fences``` {x}",
        ),
        ("Yes: {\"memories\":[{\"text\":\"two\nlines\tand a tab\",}]}", "two\nlines\tand a tab"),
        ("{'memories':[{'text':'it's Ann's cat',}]}", "it's Ann's cat"),
        ("{'memories':[{'text':'she said \"hi\"'}]}", "she said \"hi\""),
        (
            r#"Well {"memories":[{"text":"a \"quoted\" \\ word \u00e9, // no comment"}],}"#,
            "a \"quoted\" \\ word é, // no comment",
        ),
        ("{“memories”:[{“text”:“用户说“好””}]}", "用户说“好”"),
        ("{\"memories\":[{\"text\":\"“好”, 他说\",}]}", "“好”, 他说"),
    ];
    for (reply, text) in cases {
        assert_eq!(texts(reply), Ok(vec![text.to_owned()]), "{reply}");
    }
}

#[test]
fn a_reply_that_is_not_whole_is_an_error() {
    for reply in [
        "",
        "I cannot help with that.",
        "The user (see [1]) likes {curly} braces.",
        "{}",
        r#"{"memories":[{"text":"a"},{"text":"b"#,
        r#"{"memories":[{"text":"a"},{"text":"b"}"#,
        "```json\n{\"memories\":[{\"text\":\"a\"},",
        "[{\"text\":\"a\"},{\"text\":\"b\"}",
        "{\"text\":\"a\"}\n{\"text\":\"b",
        r#"{"memories":[{"text":"a"},{"txt":"b"}]}"#,
        r#"{"memories":[{"text":"a"},"b"]}"#,
        r#"{"memories":"none"}"#,
        r#"{"memories":[{"text":"a"} {"text":"b"} oops]}"#,
        r#"{"memories":[{"text":"a"}]} and {"memories":[{"text":"b" "text"}]}"#,
    ] {
        assert!(texts(reply).is_err(), "{reply}");
    }
}

#[test]
fn every_cut_of_a_reply_is_an_error() {
    let whole = r#"Here: {"memories":[{"text":"a, 'b'","importance":0.5,"sources":[1,2]},{"text":"c"}]}"#;
    assert!(texts(whole).is_ok());
    for (end, _) in whole.char_indices() {
        assert!(texts(&whole[..end]).is_err(), "{}", &whole[..end]);
    }
}

#[test]
fn an_error_is_short_enough_for_a_log() {
    let reply = format!("{{\"memories\":[{{\"text\":\"a\",\"importance\":[\"{}\"]}}]}}", "long ".repeat(500));
    let error = texts(&reply).unwrap_err();
    assert!(error.starts_with("item 0: "), "{error}");
    let error = parse::<bool>(&format!("[{:?}]", "long ".repeat(500))).unwrap_err();
    assert!(error.chars().count() <= 201, "{error}");
}

#[test]
fn deep_nesting_is_an_error_and_no_crash() {
    for reply in
        ["[".repeat(100_000), "{\"a\":".repeat(50_000), format!("x{}{}", "[".repeat(90), "]".repeat(90))]
    {
        assert!(parse::<Value>(&reply).is_err());
    }
}

#[test]
fn a_single_object_is_read() {
    let item = Item { text: "a".into(), importance: 0.8, sources: vec![3] };
    let reply = "<think>hm</think>\n```json\n{text: 'a', importance: '0.8', sources: '[3]',}\n```";
    assert_eq!(parse::<Item>(reply), Ok(item));
    assert!(parse::<Item>("no").is_err());
}

#[test]
fn fields_are_read_as_models_spell_them() {
    #[derive(Debug, Deserialize, PartialEq, Default)]
    #[serde(default)]
    struct Fields {
        #[serde(deserialize_with = "de::number")]
        number: f64,
        #[serde(deserialize_with = "de::optional_number")]
        maybe: Option<f64>,
        #[serde(deserialize_with = "de::text")]
        text: String,
        #[serde(deserialize_with = "de::optional_text")]
        date: Option<String>,
        #[serde(deserialize_with = "de::texts")]
        texts: Vec<String>,
        #[serde(deserialize_with = "de::indices")]
        indices: Vec<usize>,
        #[serde(deserialize_with = "de::flag")]
        flag: bool,
        #[serde(deserialize_with = "de::or_default")]
        list: Vec<u8>,
    }
    let read = |reply: &str| parse::<Fields>(reply);
    let nulls = r#"{"number":null,"maybe":null,"text":null,"date":"null","texts":null,"indices":null,"flag":null,"list":null}"#;
    assert_eq!(read(nulls), Ok(Fields::default()));
    assert_eq!(read("{}"), Ok(Fields::default()));
    let odd = r#"{"number":" 80% ","maybe":"0.25","text":7,"date":"2026-03-10","texts":"cats","indices":["1","chunk 4"],
        "flag":"Yes","list":[1]}"#;
    let expected = Fields {
        number: 0.8,
        maybe: Some(0.25),
        text: "7".into(),
        date: Some("2026-03-10".into()),
        texts: vec!["cats".into()],
        indices: vec![1, 4],
        flag: true,
        list: vec![1],
    };
    assert_eq!(read(odd), Ok(expected));
    for wrong in [
        r#"{"number":"high"}"#,
        r#"{"number":[1]}"#,
        r#"{"number":"NaN"}"#,
        r#"{"text":{}}"#,
        r#"{"texts":[[]]}"#,
        r#"{"indices":[-1]}"#,
        r#"{"indices":["-1"]}"#,
        r#"{"indices":[1.5]}"#,
        r#"{"indices":["none"]}"#,
        r#"{"flag":"perhaps"}"#,
    ] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_thought_without_an_answer_is_no_answer() {
    for reply in [
        "<think>perhaps {\"memories\":[{\"text\":\"a\"}]}?</think>",
        "<think>perhaps [{\"text\":\"a\"}]</think> I cannot say.",
        "[THINK]{\"memories\":[{\"text\":\"a\"}]}[/THINK]",
    ] {
        assert!(texts(reply).is_err(), "{reply}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in r#"([\[\]{}"'“”‘’:,\\/*<>a-z0-9 \n]|<think>|</think>|```|true|None|用|//|\PC){0,60}"#) {
        let _ = parse::<Value>(&text);
        let _ = parse_list::<Item>(&text, "memories");
    }

    #[test]
    fn what_is_written_is_read_whatever_surrounds_it(
        texts in prop::collection::vec("\\PC{0,20}", 0..4),
        before in "[a-z .,!?\n]{0,20}",
        after in "[a-z .,!?\n]{0,20}",
    ) {
        let items: Vec<Value> = texts.iter().map(|text| serde_json::json!({ "text": text })).collect();
        let reply = format!("{before}{}{after}", serde_json::json!({ "memories": items }));
        prop_assert_eq!(self::texts(&reply), Ok(texts));
    }
}
