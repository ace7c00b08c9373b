//! Compares results with those of kubectl, for the examples in its documentation and the tests of
//! `k8s.io/client-go/util/jsonpath` (v0.37).

use serde_json::{Value, json};

use super::{JsonPath, JsonPathFailure};

/// The document in kubectl's documentation, with some additional fields.
fn document() -> Value {
    json!({
        "kind": "List",
        "items": [
            {
                "kind": "None",
                "metadata": {
                    "name": "127.0.0.1",
                    "labels": {"kubernetes.io/hostname": "127.0.0.1"}
                },
                "status": {
                    "capacity": {"cpu": "4"},
                    "ready": true,
                    "addresses": [{"type": "LegacyHostIP", "address": "127.0.0.1"}]
                }
            },
            {
                "kind": "None",
                "metadata": {
                    "name": "127.0.0.2",
                    "labels": {"kubernetes.io/hostname": "127.0.0.2"}
                },
                "status": {
                    "capacity": {"cpu": "8"},
                    "ready": false,
                    "addresses": [
                        {"type": "LegacyHostIP", "address": "127.0.0.2"},
                        {"type": "another", "address": "127.0.0.3"}
                    ]
                }
            }
        ],
        "users": [
            {"name": "myself", "user": {}},
            {"name": "e2e", "user": {"username": "admin", "password": "secret"}}
        ],
        "n": [0, 1, 2, 3, 4],
        "unknown": null,
        "share": 1.5,
        "points": [{"x": 1, "y": "a"}, {"x": null}, {"y": "b", "x": 5.5}]
    })
}

fn render(template: &str, document: &Value) -> Result<String, JsonPathFailure> {
    JsonPath::parse(template)
        .unwrap_or_else(|error| panic!("{template}: {error}"))
        .render(document)
}

#[track_caller]
fn prints(cases: &[(&str, &str)]) {
    let document = document();
    for (template, expected) in cases {
        assert_eq!(
            render(template, &document).as_deref(),
            Ok(*expected),
            "{template}"
        );
    }
}

#[test]
fn every_example_of_kubectls_documentation_prints_its_documented_result() {
    prints(&[
        ("kind is {.kind}", "kind is List"),
        ("{.kind}", "List"),
        ("{['kind']}", "List"),
        (r"{['name\.type']}", ""),
        ("{..name}", "127.0.0.1 127.0.0.2 myself e2e"),
        ("{.items[*].metadata.name}", "127.0.0.1 127.0.0.2"),
        ("{.users[0].name}", "myself"),
        (
            "{.items[*]['metadata.name', 'status.capacity']}",
            r#"127.0.0.1 127.0.0.2 {"cpu":"4"} {"cpu":"8"}"#,
        ),
        (r#"{.users[?(@.name=="e2e")].user.password}"#, "secret"),
        (
            "{range .items[*]}[{.metadata.name}, {.status.capacity}] {end}",
            r#"[127.0.0.1, {"cpu":"4"}] [127.0.0.2, {"cpu":"8"}] "#,
        ),
        (
            r"{range .items[*]}{.metadata.name}{'\t'}{end}",
            "127.0.0.1\t127.0.0.2\t",
        ),
        (
            r"{.items[0].metadata.labels.kubernetes\.io/hostname}",
            "127.0.0.1",
        ),
        (
            r#"{range .items[*]}{.metadata.name}{"\t"}{.status.ready}{"\n"}{end}"#,
            "127.0.0.1\ttrue\n127.0.0.2\tfalse\n",
        ),
    ]);
    let document = document();
    let whole = Ok(crate::json_line(&document));
    assert_eq!(render("{@}", &document), whole);
    assert_eq!(render("{$}", &document), whole);
}

#[test]
fn indexes_and_slices_follow_kubectl() {
    prints(&[
        ("{.n[0:3]}", "0 1 2"),
        ("{.n[-1]}", "4"),
        ("{.n[-5]}", "0"),
        ("{.n[-2:]}", "3 4"),
        ("{.n[::2]}", "0 2 4"),
        ("{.n[1:4:2]}", "1 3"),
        ("{.n[-3:-1]}", "2 3"),
        ("{.n[:2]}", "0 1"),
        ("{.n[0:0]}", ""),
        ("{.n[9:9]}", ""),
        ("{.n[0,2]}", "0 2"),
        ("{.n[1:3, -1]}", "1 2 4"),
        ("{.n[*]}", "0 1 2 3 4"),
        ("{.n}", "[0,1,2,3,4]"),
        ("{..addresses[0].address}", "127.0.0.1 127.0.0.2"),
    ]);
    let document = document();
    let fails = |template: &str| render(template, &document).unwrap_err().to_string();
    assert_eq!(
        fails("{.n[5]}"),
        "index 5 is out of bounds of a list of length 5"
    );
    assert_eq!(
        fails("{.n[-6]}"),
        "index -1 is out of bounds of a list of length 5"
    );
    assert_eq!(
        fails("{.n[0:6]}"),
        "index 5 is out of bounds of a list of length 5"
    );
    assert_eq!(
        fails("{.n[3:1]}"),
        "the slice starts at 3, after its end at 1"
    );
    assert_eq!(fails("{.kind[0]}"), "a text has no entries to select");
}

#[test]
fn missing_fields_print_nothing_and_unknown_values_are_null() {
    prints(&[
        ("a{.missing}b", "ab"),
        ("{.missing[0].x}{.missing[*]}{.kind.x}", ""),
        ("{range .missing[*]}x{end}y", "y"),
        ("{.unknown}", "null"),
        ("{.unknown.x}{.unknown[*]}{.unknown[0]}", ""),
        ("{.share}", "1.5"),
        ("{.}", ""),
        (
            "{.users[*].user}",
            r#"{} {"username":"admin","password":"secret"}"#,
        ),
        ("{.users[1].user.*}", "admin secret"),
        (
            r#"{.users[*]["name","user.password"]}"#,
            "myself e2e secret",
        ),
    ]);
}

#[test]
fn filters_compare_single_values() {
    prints(&[
        ("{.n[?(@<3)]}", "0 1 2"),
        ("{.n[?(@>=3)]}", "3 4"),
        ("{.n[?(3<=@)]}", "3 4"),
        (r#"{.points[?(@.y=="a")].x}"#, "1"),
        (r#"{.points[?(@.y!="a")].x}"#, "5.5"),
        ("{.points[?(@.x>1)].y}", "b"),
        ("{.points[?(@.x==1)].y}", "a"),
        ("{.points[?(@.x)].y}", "a b"),
        ("{.points[?(@.z)].y}", ""),
        ("{.items[?(@..ready==true)].metadata.name}", "127.0.0.1"),
        (
            r#"{.items[?(@.metadata.labels.kubernetes\.io/hostname=="127.0.0.1")].kind}"#,
            "None",
        ),
        ("{.users[?(@.user.password=='secret')].name}", "e2e"),
        ("{.users[?(@.name==@.name)].name}", "myself e2e"),
        (r#"{.users[?(@.name=="a)]=b")].name}"#, ""),
        (
            r#"{.items[?(@.status.addresses[?(@.type=="another")])].metadata.name}"#,
            "127.0.0.2",
        ),
    ]);
    let document = document();
    let fails = |template: &str| render(template, &document).unwrap_err().to_string();
    assert_eq!(
        fails("{.n[?(@=='a')]}"),
        "cannot compare a number with a text"
    );
    assert_eq!(
        fails("{.items[?(@..address=='a')]}"),
        "a filter compares single values, but found 2"
    );
}

#[test]
fn ranges_nest() {
    prints(&[
        (
            "{range .items[*]}{range .status.addresses[*]}{.address}, {end}|{end}{.kind}",
            "127.0.0.1, |127.0.0.2, 127.0.0.3, |List",
        ),
        ("{range .n[*]}{@},{end}", "0,1,2,3,4,"),
        (
            "{range .items[*]}{.metadata.name}{range .none[*]}x{end}+{end}",
            "127.0.0.1+127.0.0.2+",
        ),
    ]);
}

#[test]
fn mistakes_are_reported_with_their_position() {
    let cases = [
        ("{.kind", "`{` has no `}` at character 1"),
        ("{.items[", "`[` has no `]` at character 8"),
        ("{\"abc", "the text has no closing \" at character 2"),
        ("x{.kind}{end}", "`{end}` has no `{range}` at character 9"),
        (
            "{range .items[*]}{.kind}",
            "`{range}` has no `{end}` at character 1",
        ),
        (
            "{hello}",
            "unknown word `hello` at character 2; fields begin with a dot, and text is quoted",
        ),
        (
            "{.items[name]}",
            "`name` is not an index at character 9; quote the name of a field: ['NAME']",
        ),
        (
            "{.items[].x}",
            "an index is missing at character 9; `[*]` selects all entries, `[0]` the first",
        ),
        (
            "{.n[::0]}",
            "the step of a slice must be at least 1 at character 5",
        ),
        (
            "{.items[?(@.name=~/^test$/)].x}",
            "`=~` is not an operator at character 17; kubectl's JSONPath has no regular \
             expressions; use -o json with jq",
        ),
        (
            r#"{.items[?(@.a=="b" && @.c==1)]}"#,
            "unexpected `&` at character 20; kubectl's JSONPath has no `&&` and `||`; use -o json \
             with jq",
        ),
        (
            "{.items[?(@.a<>1)]}",
            "`<>` is not an operator at character 14; operators are ==, !=, <, <=, > and >=",
        ),
        (
            "{.items[?(@.a==1].x}",
            "the filter has no `)` at character 8",
        ),
        ("{.a[?(@.b)}", "the filter has no `]` at character 11"),
        ("{.a, .b}", "unexpected `,` at character 4"),
    ];
    for (template, expected) in cases {
        let error = JsonPath::parse(template).expect_err(template);
        assert_eq!(error.to_string(), expected, "{template}");
    }
}

#[test]
fn deep_nesting_is_an_error() {
    let ranges = "{range .a}".repeat(10_000);
    assert!(JsonPath::parse(&ranges).is_err());
    let filters = format!("{{{}", ".a[?(@".repeat(10_000));
    assert!(JsonPath::parse(&filters).is_err());
    let filters = format!("{{{}{}}}", "[?(@".repeat(100), ")]".repeat(100));
    let error = JsonPath::parse(&filters).expect_err("too deep");
    assert_eq!(error.message, "the template is nested too deeply");
}

#[test]
fn fields_of_custom_columns_may_omit_braces_and_the_first_dot() {
    let document = document();
    for field in [".share", "share", "{.share}", "{share}"] {
        let path = JsonPath::parse_field(field).expect(field);
        assert_eq!(path.values(&document), Ok(vec![&json!(1.5)]), "{field}");
        assert_eq!(path.first_field(), Some("share"));
    }
    let all = JsonPath::parse_field(".users[*].name").expect("a path");
    assert_eq!(all.values(&document).map(|found| found.len()), Ok(2));
}

#[test]
fn escapes_in_text_are_those_of_go() {
    prints(&[(r#"{"a\tb\n\"\\\u00e9\x41"}{'it\'s'}"#, "a\tb\n\"\\éAit's")]);
    let error = JsonPath::parse(r#"{"\q"}"#).expect_err("invalid");
    assert_eq!(
        (error.position, error.message.as_str()),
        (3, "invalid escape sequence")
    );
}
