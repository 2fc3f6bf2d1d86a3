//! Secrets that are known by their own shape: most services give their keys a prefix so that leaks can be found. The
//! lengths are at the lower end, because a key that was cut off is one, too.

use super::Kind;
use super::check::{always, has_digit};

/// A kind whose whole match is the secret, with one sample and one text to be left alone.
fn shape(
    name: &'static str,
    pattern: &str,
    samples: &'static [&'static str],
    spared: &'static [&'static str],
) -> Kind {
    Kind { name, pattern: pattern.to_owned(), check: always, samples, spared }
}

pub(super) fn kinds() -> Vec<Kind> {
    [developers(), models(), clouds(), shops(), tools(), links()].into_iter().flatten().collect()
}

fn developers() -> Vec<Kind> {
    vec![
        shape(
            "GitHub token",
            r"\b(?:(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})",
            &["gh·p_16C7e42F292c6912E7710c838347Ae178B4a", "github·_pat_11ABCDEFG0abcdefghijkl_aB3dE5"],
            &["ghp_is the prefix", "github_pat_ begins it"],
        ),
        shape(
            "GitLab token",
            r"\b(?:gl(?:pat|dt|ft|soat|rt|imt|ptt|agent|oas|cbt|ffct)-[A-Za-z0-9_-]{16,}|GR1348941[A-Za-z0-9_-]{16,})",
            &["gl·pat-aB3dE5gH7jK9mN1pQ3sT", "GR·1348941aB3dE5gH7jK9mN1pQ3sT"],
            &["the glpat- prefix", "GR1348941 is a number"],
        ),
        shape(
            "package registry token",
            r"\b(?:npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{40,}|rubygems_[a-f0-9]{32,}|dckr_pat_[A-Za-z0-9_-]{20,}|(?i:clojars)_[A-Za-z0-9]{50,}|oy2[a-z0-9]{43})",
            &[
                "np·m_aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5",
                "ruby·gems_0123456789abcdef0123456789abcdef0123456789abcdef",
            ],
            &["npm_config_registry", "pypi-publish is a workflow", "rubygems_version"],
        ),
        shape(
            "Slack token",
            r"\b(?:xox[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,})",
            &["xo·xb-123456789012-1234567890123-aB3dE5gH7jK9", "xa·pp-1-A0B1C2D3E4-1234567890123-abcdef"],
            &["xoxo-love", "xapp-1 is short"],
        ),
        shape(
            "Telegram bot token",
            r"(?:\b|bot)\d{8,12}:(?:AA)?[A-Za-z0-9_-]{33,35}(?:\b|$)",
            &[
                "bot·1234567890:AAabcdefghijklmnopqrstuvwxyz1234567/getMe",
                "123456789:·AAabcdefghijklmnopqrstuvwxyz1234567",
            ],
            &["at 1234567890:00 sharp", "12345678:short"],
        ),
        Kind {
            name: "Discord bot token",
            pattern: r"\b[MNO][A-Za-z0-9_-]{22,28}\.[A-Za-z0-9_-]{5,7}\.[A-Za-z0-9_-]{27,40}".into(),
            check: has_digit,
            samples: &["M·TIzNDU2Nzg5MDEyMzQ1Njc4.Gabcde.abcdefghijklmnopqrstuvwxyz1"],
            spared: &["Module.config.value", "Next.js.org"],
        },
        shape(
            "JSON web token",
            r"\beyJ[A-Za-z0-9_=-]{8,}\.[A-Za-z0-9_=-]{4,}(?:\.[A-Za-z0-9_=+/-]*)?",
            &["ey·JhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc_def-1"],
            &["eyJ is how it begins", "eyJhbGciOi is cut before the point"],
        ),
    ]
}

fn models() -> Vec<Kind> {
    vec![
        Kind {
            name: "sk- key of a model provider",
            pattern: r"\bsk-[A-Za-z0-9_-]{16,}".into(),
            check: has_digit,
            samples: &[
                "sk·-proj-abcDEF123456ghiJKL",
                "sk·-ant-api03-abcDEF123456ghiJKL",
                "sk·-0123456789abcdef0123456789abcdef",
            ],
            spared: &["sk-learn", "sk-proj-is-the-prefix-of-it"],
        },
        shape(
            "model hub or search key",
            r"\b(?:hf_[A-Za-z0-9]{30,}|api_org_[A-Za-z0-9]{30,}|pplx-[A-Za-z0-9]{32,}|gsk_[A-Za-z0-9]{32,}|r8_[A-Za-z0-9]{30,}|xai-[A-Za-z0-9]{40,}|tvly-[A-Za-z0-9-]{20,}|jina_[A-Za-z0-9_-]{40,}|nvapi-[A-Za-z0-9_-]{40,})",
            &[
                "h·f_abcdefghijklmnopqrstuvwxyzABCDEFGH",
                "pp·lx-aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5hI7jK9lM1nO3",
            ],
            &["hf_hub_download", "pplx-small", "xai-grok"],
        ),
    ]
}

fn clouds() -> Vec<Kind> {
    vec![
        shape(
            "AWS access key id",
            r"\b(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b",
            &["AK·IAIOSFODNN7EXAMPLE", "AS·IAQWERTYUIOPASDFGH"],
            &["AKIA is a prefix", "ASIAPACIFIC2026"],
        ),
        shape(
            "Alibaba or Tencent access key id",
            r"\b(?:LTAI[A-Za-z0-9]{16,26}|AKID[A-Za-z0-9]{30,34})\b",
            &["LT·AI5tAbCdEfGhIjKlMnOpQr", "AK·IDz8krbsJ5yKBZQpn74WFkmLPx3gnPhESA"],
            &["LTAI is how it begins", "AKID1"],
        ),
        shape(
            "Google key",
            r"\b(?:AIza[A-Za-z0-9_-]{30,}|GOCSPX-[A-Za-z0-9_-]{20,}|ya29\.[A-Za-z0-9_-]{20,})",
            &["AI·zaSyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q", "GOC·SPX-aB3dE5gH7jK9mN1pQ3sT5vW7"],
            &["AIzawa is a name", "GOCSPX-"],
        ),
        shape(
            "Azure client secret",
            r"[A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{31,34}",
            &["abc8Q·~aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3f"],
            &["8Q~ is short", "2Q~3Q"],
        ),
        shape(
            "Azure storage key",
            r"(?i)\b(?:AccountKey|SharedAccessKey)=(?P<secret>[A-Za-z0-9+/=%]{20,})",
            &[
                "AccountName=a;Account·Key=aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5AAAAAAAAAAAA==;",
            ],
            &["AccountKey=", "AccountKey=none"],
        ),
        shape(
            "cloud host token",
            r"\b(?:do[opr]_v1_[a-f0-9]{40,}|HRKU-[A-Za-z0-9_-]{30,}|fo1_[A-Za-z0-9_-]{40,}|fm[12][ar]?_[A-Za-z0-9+/]{60,}={0,2}|dapi[a-f0-9]{32}(?:-\d)?|sbp_[a-f0-9]{40}|pscale_(?:tkn|oauth|pw)_[A-Za-z0-9_.=-]{30,}|4b1d[A-Za-z0-9]{38}\b|t1\.[A-Za-z0-9_=-]+\.[A-Za-z0-9_=-]{80,}|AQVN[A-Za-z0-9_-]{35,38}|nfp_[A-Za-z0-9]{36,}|vcp_[A-Za-z0-9]{24,})",
            &[
                "dop·_v1_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
                "da·pi0123456789abcdef0123456789abcdef",
            ],
            &["dapify", "dop_v1_ begins it"],
        ),
        shape(
            "infrastructure token",
            r"\b(?:hv[sbr]\.[A-Za-z0-9_-]{24,}|[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{40,}|pul-[a-f0-9]{40}|pnu_[A-Za-z0-9]{36}|dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9.]{40,}|dt0[a-z]\d\d\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{64}|sha256~[A-Za-z0-9_-]{43}|ops_eyJ[A-Za-z0-9+/=]{50,})",
            &[
                "hv·s.aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1",
                "aB3dE5gH7jK9mN.atlas·v1.aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5aB3dE5gH7jK9mN1pQ3sT5vW7",
            ],
            &[
                "hvs.example.com",
                "atlasv1.",
                "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            ],
        ),
    ]
}

fn shops() -> Vec<Kind> {
    vec![
        shape(
            "Stripe key",
            r"\b(?:[rs]k_(?:live|test|prod)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{20,})",
            &["sk·_live_aB3dE5gH7jK9mN1pQ3sT5vW7", "rk·_test_aB3dE5gH7jK9"],
            &["pk_live_aB3dE5gH7jK9mN1pQ3sT5vW7", "sk_live_ is the prefix"],
        ),
        shape(
            "shop or payment token",
            r"\b(?:sq0[a-z]{3}-[A-Za-z0-9_-]{20,}|EAAA[A-Za-z0-9_-]{50,}|shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{30,}|FLWSECK(?:_TEST)?-[A-Za-z0-9]{12,}(?:-X)?|shippo_(?:live|test)_[A-Fa-f0-9]{40}|EZ[AT]K[A-Za-z0-9]{54}|duffel_(?:test|live)_[A-Za-z0-9_=-]{40,}|access_token\$production\$[a-z0-9]{16}\$[a-f0-9]{32})",
            &["sq0·atp-aB3dE5gH7jK9mN1pQ3sT5v", "shp·at_0123456789abcdef0123456789abcdef"],
            &["sq0atp- begins it", "shpat_oil"],
        ),
        shape(
            "mail or message service key",
            r"\b(?:SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|SK[a-f0-9]{32}\b|key-[a-f0-9]{32}\b|[a-f0-9]{32}-us\d{1,2}\b|xkeysib-[a-f0-9]{40,}(?:-[A-Za-z0-9]{16})?|[a-f0-9]{32}-[a-f0-9]{8}-[a-f0-9]{8}\b)",
            &[
                "S·G.aB3dE5gH7jK9mN1pQ3sT5v.aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5aB3dE5g",
                "S·K0123456789abcdef0123456789abcdef",
                "0123456789abcdef0123456789abcdef·-us14",
            ],
            &["SG.com.sg", "key-0123", "SKU0123456789", "0123456789abcdef0123456789abcdef-usage"],
        ),
        shape(
            "Facebook token",
            r"\b(?:EAA[MC][A-Za-z0-9]{60,}|\d{15,16}\|[A-Za-z0-9_-]{27,40})",
            &["EA·ACaB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"],
            &["EAAC", "123456789012345|abc"],
        ),
    ]
}

fn tools() -> Vec<Kind> {
    vec![
        shape(
            "work tool token",
            r"\b(?:ntn_[A-Za-z0-9]{40,}|lin_(?:api|oauth)_[A-Za-z0-9]{32,}|AT[AC]TT3[A-Za-z0-9_=-]{30,}|PMAK-[a-f0-9]{24}-[a-f0-9]{34}|figd_[A-Za-z0-9_-]{30,}|tfp_[A-Za-z0-9_.=-]{50,}|rdme_[a-z0-9]{70}|API-[A-Z0-9]{26}\b|fio-u-[A-Za-z0-9_=-]{40,}|pat[A-Za-z0-9]{14}\.[a-f0-9]{64}|(?:pat|sat)\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20})",
            &[
                "nt·n_12345678901aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3f",
                "lin·_api_aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5aB3d",
            ],
            &["ntn_short", "lin_api_limit", "API-REFERENCE"],
        ),
        shape(
            "monitoring token",
            r"\b(?:glsa_[A-Za-z0-9]{30,}(?:_[A-Fa-f0-9]{8})?|glc_[A-Za-z0-9+/=]{32,}|NR(?:AK|JS|II)-[A-Za-z0-9-]{19,}|sntry[us]_[A-Za-z0-9+/=_]{40,}|sgp_(?:[A-Fa-f0-9]{16}_|local_)?[A-Fa-f0-9]{40}|ico-[A-Za-z0-9]{32}\b|AKCp[A-Za-z0-9]{60,}|cmVmd[A-Za-z0-9]{50,}|phx_[A-Za-z0-9]{40,})",
            &["glsa·_aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE_0a1b2c3d", "NR·AK-AB3DE5GH7JK9MN1PQ3ST5VW7YZ9"],
            &["glsa_role", "NRAK-1"],
        ),
        shape(
            "key of a key keeper",
            r"\b(?:A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}\b|AGE-SECRET-KEY-1[A-Z0-9]{20,})",
            &[
                "A·3-ABCDEF-GHIJKL-MNOPQ-RSTUV-WXYZA-BCDEF",
                "AGE-SECRET-·KEY-1QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7LQPZRY9X8GF2TVDW0S3JN5",
            ],
            &["A3-paper", "AGE-SECRET-KEY-1 begins it"],
        ),
    ]
}

/// Addresses that are a key themselves: whoever has one can post there.
fn links() -> Vec<Kind> {
    vec![
        shape(
            "webhook address",
            r"(?i)\bhooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9+/_-]{10,})",
            &["https://hooks.·slack.com/services/T0AB1CD2E/B0AB1CD2E/aB3dE5gH7jK9mN1pQ3sT5vW7"],
            &["https://hooks.slack.com/services/"],
        ),
        shape(
            "Discord webhook address",
            r"(?i)\bdiscord(?:app)?\.com/api/webhooks/(?P<secret>[A-Za-z0-9/_-]{10,})",
            &["https://discord.·com/api/webhooks/123456789012345678/aB3dE5gH7jK9mN1pQ3sT5vW7"],
            &["https://discord.com/api/webhooks/"],
        ),
        shape(
            "Teams webhook address",
            r"(?i)\.webhook\.office\.com/webhookb2/(?P<secret>[A-Za-z0-9@/_-]{10,})",
            &[
                "https://a.webhook.·office.com/webhookb2/63072475-f579@2aaf2c25/IncomingWebhook/494ced8b3a57/1",
            ],
            &["https://a.webhook.office.com/"],
        ),
        shape(
            "Feishu or WeCom webhook address",
            r"(?i)(?:/open-apis/bot/v2/hook/|/cgi-bin/webhook/send\?key=)(?P<secret>[A-Za-z0-9-]{10,})",
            &["https://open.feishu.cn/open-apis/bot/v2/·hook/63072475-f579-3309-f433-d4f23a97fa7c"],
            &["https://open.feishu.cn/open-apis/bot/v2/hook/"],
        ),
    ]
}
