//! Texts a second on one thread at about 57 tokens a text, and the rate of its products beside that of one large product
//! in the same run: on a busy machine only their ratio says something.

use std::path::PathBuf;

use criterion::{Criterion, Throughput, black_box};
use dreamer_bench_embed::{Model, operations};
use ndarray::Array2;
use ndarray::linalg::general_mat_mul;

const TEXTS: usize = 64;
/// One sentence a language; three or four of them are about 57 tokens.
const SENTENCES: [&str; 8] = [
    "The user prefers dark mode in every editor and terminal because bright screens hurt at night.",
    "用户住在北京，在中关村工作，喜欢猫，但现在对猫过敏。",
    "Standup moved from 9:00 to 10:00 on Mondays, and Alice will send the notes afterwards.",
    "사용자는 다크 모드를 선호하고 매일 아침 커피를 마십니다.",
    "Deploy with docker compose; nginx is the reverse proxy, and the API server listens on port 8080.",
    "ユーザーはダークモードを好み、毎朝コーヒーを飲みます。",
    "She booked a flight to Lisbon for the third of May and asked for a window seat.",
    "他下周二要去上海出差，周五晚上回来，周末和家人去爬山。",
];

fn folder() -> PathBuf {
    let data = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let data = data.or_else(|| Some(std::env::home_dir()?.join(".local/share"))).expect("a home folder");
    data.join("dreamer/models/use-multilingual-3")
}

fn main() {
    let model = Model::open(&folder()).expect("the weights: dreamer model pull");
    let text = |nth: usize| {
        (0..if nth % 3 == 0 { 2 } else { 3 })
            .map(|k| SENTENCES[(nth * 3 + k) % SENTENCES.len()])
            .collect::<Vec<_>>()
            .join(" ")
    };
    let texts: Vec<String> = (0..TEXTS).map(text).collect();
    let tokens: usize = texts.iter().map(|text| model.pieces(text).len()).sum();
    println!("{:.1} tokens a text", tokens as f64 / TEXTS as f64);

    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("texts");
    group.sample_size(20).throughput(Throughput::Elements(TEXTS as u64));
    group.bench_function("embed", |b| b.iter(|| model.vectors(black_box(&texts))));
    group.finish();

    let mut group = criterion.benchmark_group("operations");
    group.sample_size(20).throughput(Throughput::Elements(operations(tokens, TEXTS)));
    group.bench_function("embed", |b| b.iter(|| model.vectors(black_box(&texts))));
    let side = 1024;
    let (a, mut c) = (Array2::from_elem((side, side), 0.5_f32), Array2::zeros((side, side)));
    group.throughput(Throughput::Elements(2 * (side * side * side) as u64));
    group.bench_function("sgemm", |b| b.iter(|| general_mat_mul(1.0, black_box(&a), &a, 0.0, &mut c)));
    group.finish();
    criterion.final_summary();
}
