mod fake_openai;

#[test]
fn t() {}
