use syncline_bench::codes::{Tiling, quantisation_codes};
use syncline_bench::fields::Generator;
use syncline_bench::statistics::*;
use clap::ValueEnum;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let s: f64 = a[1].parse().unwrap();
    for g in Generator::value_variants() {
        let t = std::time::Instant::now();
        let f = g.generate(s);
        if a.len() > 2 && !a[2..].contains(&f.name) { continue; }
        let dt = t.elapsed().as_secs_f64();
        for t in [Tiling::Zeros, Tiling::Whole] {
            let c = quantisation_codes(&f, 1e-3, t);
            let h = histogram(&c);
            let b = huffman_bits(&h);
            println!("{:12} {:16} {dt:6.2}s {t:?} range {:.4} bits {b:.4} ratio {:.2} paper {:?} outliers {:.5} zero {:.4} nsym {}", f.name, f.shape_text(), f.range(), 16.0/b, g.paper_ratio(), h[0] as f64/c.len() as f64, h.get(512).copied().unwrap_or(0) as f64/c.len() as f64, h.iter().filter(|&&x| x>0).count());
        }
    }
}
