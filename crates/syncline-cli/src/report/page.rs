//! The page.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The pictures of a slice.
pub struct Pictures {
    /// What the slice is.
    pub label: String,
    /// The addresses of the pictures of the original, the other array, and the difference.
    pub addresses: [String; 3],
}

/// A color bar and what its ends mean.
pub struct ColorBar {
    /// The address of its picture.
    pub address: String,
    /// The lowest value, and the highest.
    pub ends: [String; 2],
}

/// A chart with its heading and an explanation.
pub struct Chart {
    /// The heading.
    pub title: &'static str,
    /// What is shown.
    pub text: String,
    /// The chart.
    pub svg: Markup,
}

/// What the page contains.
pub struct Page {
    /// The heading.
    pub title: String,
    /// Type, shape, and bound.
    pub subtitle: String,
    /// The verdict, and whether the bound holds, if there is one.
    pub verdict: (String, Option<bool>),
    /// Names and values of metrics.
    pub metrics: Vec<(String, String)>,
    /// The slices.
    pub slices: Vec<Pictures>,
    /// The color bars of values and of differences.
    pub bars: [ColorBar; 2],
    /// The charts.
    pub charts: Vec<Chart>,
}

impl Page {
    /// Returns the page. It loads nothing: the policy allows its own pictures, style, and script only.
    pub fn html(&self) -> String {
        let policy = format!(
            "default-src 'none'; img-src data:; style-src '{}'; script-src '{}'",
            fingerprint(STYLE),
            fingerprint(SCRIPT)
        );
        let (verdict, holds) = &self.verdict;
        let class = match holds {
            Some(true) => "verdict holds",
            Some(false) => "verdict fails",
            None => "verdict measured",
        };
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(policy);
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { (self.title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    h1 { (self.title) }
                    p { (self.subtitle) }
                    div class=(class) { (verdict) }
                    (self.slices())
                    h2 { "Metrics" }
                    p {
                        "Errors are those of finite elements that are not fill. NRMSE and PSNR refer to the value range \
                         of the original. Distances of distributions are those of the cumulative distributions."
                    }
                    table { @for (name, value) in &self.metrics { tr { td { (name) } td { (value) } } } }
                    h2 { "Charts" }
                    div class="grid wide" {
                        @for chart in &self.charts {
                            figure { h3 { (chart.title) } p { (chart.text) } (chart.svg) }
                        }
                    }
                    script { (PreEscaped(SCRIPT)) }
                }
            }
        };
        page.into_string()
    }

    fn slices(&self) -> Markup {
        let Some(last) = self.slices.len().checked_sub(1) else { return html! {} };
        html! {
            h2 { "Slices" }
            p { "Fill values, NaN, and infinities are transparent. A point of the difference is its largest one." }
            div class="slider" {
                label for="slice" { "Slice" }
                input id="slice" type="range" min="0" max=(last) value=(last / 2) disabled[last == 0];
                output id="slice-label" for="slice" {}
            }
            @for slice in &self.slices {
                div class="slice grid" hidden data-label=(slice.label) {
                    @for (title, address) in ["Before", "After", "Difference"].iter().zip(&slice.addresses) {
                        figure { h3 { (title) } img class="picture" src=(address) alt=(format!("{title} {}", slice.label)); }
                    }
                }
            }
            div class="grid" {
                @for (title, bar) in ["value", "difference"].iter().zip(&self.bars) {
                    figure class="bar" {
                        img src=(bar.address) alt=(format!("Colors of the {title}"));
                        figcaption { span { (bar.ends[0]) } span { (title) } span { (bar.ends[1]) } }
                    }
                }
            }
        }
    }
}

/// Returns what a policy calls an inline style or script by.
fn fingerprint(text: &str) -> String {
    format!("sha256-{}", BASE64_STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_text() {
        let bar = || ColorBar { address: String::new(), ends: [String::new(), String::new()] };
        let page = Page {
            title: "<script>alert(1)</script>".into(),
            subtitle: String::new(),
            verdict: ("the bound holds".into(), Some(true)),
            metrics: vec![("a & b".into(), "1".into())],
            slices: Vec::new(),
            bars: [bar(), bar()],
            charts: Vec::new(),
        };
        let html = page.html();
        assert!(html.contains("&lt;script&gt;alert(1)") && html.contains("a &amp; b"));
        assert!(html.contains("default-src 'none'") && !html.contains("id=\"slice\""));
    }
}
