//! The tags that keep a text out of memory: `#tmp` and `#no_archive`.

use std::sync::LazyLock;

use regex::Regex;

/// Whether a text holds one of the tags as a whole word: `#tmpfile` and `page#tmp` are none.
pub(super) fn is_excluded(text: &str) -> bool {
    static TAG: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?im)(?:^|[\s(\[（【,，。；;:：、])#(?:tmp|no_archive)(?:$|[^\w/-])")
            .expect("the pattern is fixed")
    });
    text.contains('#') && TAG.is_match(text)
}

#[cfg(test)]
mod tests {
    use super::is_excluded;

    #[test]
    fn only_whole_words_are_tags() {
        for text in
            ["#tmp", "a #tmp", "#NO_ARCHIVE.", "a\n#tmp\nb", "密码，#tmp，别记", "(#tmp)", "## Plans #tmp"]
        {
            assert!(is_excluded(text), "{text}");
        }
        for text in ["#tmpfile", "page#tmp", "#tmp-dir", "#tmp/x", "# tmp", "tmp", "`#tmp`", "#tmp测试"] {
            assert!(!is_excluded(text), "{text}");
        }
    }
}
