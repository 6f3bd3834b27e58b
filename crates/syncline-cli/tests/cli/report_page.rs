//! `syncline report`: the page is written by the process and looked at in a browser.

use super::*;

/// A field of three axes, and its stream.
fn workshop() -> Workshop {
    let w = Workshop::new();
    let value = |i: usize| ((i % 48) as f32 * 0.2).sin() + ((i / 48 % 40) as f32 * 0.1).cos() + (i / 1920) as f32 * 0.1;
    let values = (0..9 * 1920).map(|i| if i % 500 == 3 { f32::NAN } else { value(i) });
    w.write("x.f32", &values.flat_map(|value: f32| value.to_le_bytes()).collect::<Vec<u8>>());
    w.ok("compress x.f32 --shape 9x40x48 --rel 1e-3 -q");
    w
}

#[test]
fn a_page_is_written() {
    let w = workshop();
    w.ok("report x.f32 x.f32.syn -q");
    let page = String::from_utf8(w.read("report.html")).unwrap();
    for expected in [
        "The bound holds for every element",
        "default-src 'none'",
        "Histogram of errors",
        "Spectrum",
        "Autocorrelation of errors",
        "Ratio by chunk",
        "Rate and distortion",
        "this stream",
        "PSNR",
        "Pearson",
        "Kolmogorov",
        "[4, 0:40, 0:48]",
    ] {
        assert!(page.contains(expected), "{expected}");
    }
    // Nothing is loaded from elsewhere.
    for address in ["http://", "https://", "url(", "@import", "src=\"/"] {
        let rest = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!rest.contains(address), "{address}");
    }
    w.fails("report x.f32 x.f32.syn", 2, "--force");
    w.fails("report - x.f32.syn -o y.html", 2, "name files");

    // A pair of arrays.
    w.ok("decompress x.f32.syn -o y.f32");
    w.ok("report x.f32 y.f32 --shape 9x40x48 -o pair.html");
    let page = String::from_utf8(w.read("pair.html")).unwrap();
    assert!(page.contains("elements differ") && !page.contains("Ratio by chunk"));
    // Other types and numbers of axes.
    for (name, shape) in [("i.u16", "34560"), ("i.f64", "90x96"), ("e.f32", "0x4"), ("one.f32", "1")] {
        let bytes = if name == "e.f32" { Vec::new() } else { field_f32(17_280) };
        w.write(name, if name == "one.f32" { &bytes[..4] } else { &bytes });
        w.ok(&format!("compress {name} --shape {shape} --lossless -o {name}.syn -q"));
        w.ok(&format!("report {name} {name}.syn -o {name}.html -q"));
    }
    // A bound that does not hold.
    let mut wrong = w.read("x.f32");
    wrong[4000..4004].copy_from_slice(&9f32.to_le_bytes());
    w.write("wrong.f32", &wrong);
    w.ok("report wrong.f32 x.f32.syn -o wrong.html");
    assert!(String::from_utf8(w.read("wrong.html")).unwrap().contains("the bound does not hold: 1 element"));
}

#[cfg(unix)]
mod in_a_browser {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

    use serde_json::{Value, json};

    use super::*;

    /// Names of the browser.
    const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

    /// A page in a browser without a window, which is controlled through pipes.
    struct Browser {
        child: Child,
        requests: ChildStdin,
        answers: BufReader<ChildStdout>,
        session: Value,
        number: u64,
        /// What was reported beside the answers.
        events: Vec<Value>,
    }

    impl Browser {
        /// Starts a browser; `None` if there is none.
        fn start(w: &Workshop) -> Option<Self> {
            let there =
                |name: &str| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
            let name = NAMES.into_iter().find(|name| there(name))?;
            // The browser reads descriptor 3 and writes to descriptor 4.
            let line = format!(
                "exec {name} --headless --no-sandbox --disable-gpu --remote-debugging-pipe --user-data-dir={} \
                 about:blank 3<&0 4>&1 >/dev/null 2>/dev/null </dev/null",
                w.path("profile").display()
            );
            let mut child =
                Command::new("sh").args(["-c", &line]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let (requests, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
            let answers = BufReader::new(answers);
            let mut browser = Self { child, requests, answers, session: Value::Null, number: 0, events: Vec::new() };
            let target = browser.ask("Target.createTarget", json!({ "url": "about:blank" }))["targetId"].clone();
            let attached = browser.ask("Target.attachToTarget", json!({ "targetId": target, "flatten": true }));
            browser.session = attached["sessionId"].clone();
            for domain in ["Page", "Runtime", "Log", "Network"] {
                browser.ask(&format!("{domain}.enable"), json!({}));
            }
            Some(browser)
        }

        fn ask(&mut self, method: &str, parameters: Value) -> Value {
            self.number += 1;
            let mut request = json!({ "id": self.number, "method": method, "params": parameters });
            if !self.session.is_null() {
                request["sessionId"] = self.session.clone();
            }
            write!(self.requests, "{request}\0").unwrap();
            self.requests.flush().unwrap();
            loop {
                let message = self.next();
                if message["id"] == self.number {
                    assert!(message["error"].is_null(), "{method}: {message}");
                    return message["result"].clone();
                }
                self.events.push(message);
            }
        }

        fn next(&mut self) -> Value {
            let mut message = Vec::new();
            self.answers.read_until(0, &mut message).unwrap();
            assert_eq!(message.pop(), Some(0), "the browser ended");
            serde_json::from_slice(&message).unwrap()
        }

        fn open(&mut self, w: &Workshop, name: &str) {
            self.ask("Page.navigate", json!({ "url": format!("file://{}", w.path(name).display()) }));
            while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
                let message = self.next();
                self.events.push(message);
            }
        }

        /// The value of an expression in the page.
        fn value(&mut self, expression: &str) -> Value {
            let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
            let result = self.ask("Runtime.evaluate", parameters);
            assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
            result["result"]["value"].clone()
        }
    }

    impl Drop for Browser {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    #[test]
    fn the_page_works() {
        let w = workshop();
        w.ok("report x.f32 x.f32.syn -q");
        let Some(mut browser) = Browser::start(&w) else {
            eprintln!("skipped: there is no Chromium (Debian: apt-get install chromium)");
            return;
        };
        browser.open(&w, "report.html");
        // Every picture is there and shows something.
        let pictures = browser.value(
            "Promise.all([...document.images].map(async image => { await image.decode(); \
             const canvas = new OffscreenCanvas(image.naturalWidth, image.naturalHeight); \
             const context = canvas.getContext('2d'); context.drawImage(image, 0, 0); \
             const data = context.getImageData(0, 0, canvas.width, canvas.height).data; \
             return new Set(new Uint32Array(data.buffer)).size; }))",
        );
        let colors: Vec<u64> = pictures.as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).collect();
        assert_eq!(colors.len(), 9 * 3 + 3);
        assert!(colors.iter().all(|&count| count > 20), "{colors:?}");
        assert_eq!(browser.value("document.querySelectorAll('svg').length"), 5);
        // The slider changes the slice.
        let shown = "[...document.querySelectorAll('.slice')].filter(slice => slice.offsetHeight > 0)\
                     .map(slice => slice.dataset.label).join()";
        assert_eq!(browser.value(shown), "[4, 0:40, 0:48]");
        browser.value("slider.value = 7; slider.dispatchEvent(new Event('input')); 0");
        assert_eq!(browser.value(shown), "[7, 0:40, 0:48]");
        assert_eq!(browser.value("document.querySelector('#slice-label').textContent"), "[7, 0:40, 0:48]");
        // In the dark as well.
        let back = "getComputedStyle(document.body).backgroundColor";
        let mut colors = Vec::new();
        for scheme in ["light", "dark"] {
            let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
            browser.ask("Emulation.setEmulatedMedia", features);
            colors.push(browser.value(back));
        }
        assert_ne!(colors[0], colors[1]);
        // No errors, and nothing is loaded from elsewhere.
        for event in &browser.events {
            let method = event["method"].as_str().unwrap_or_default();
            assert!(
                !["Log.entryAdded", "Runtime.exceptionThrown", "Network.loadingFailed"].contains(&method),
                "{event}"
            );
            if method == "Network.requestWillBeSent" {
                let address = event["params"]["request"]["url"].as_str().unwrap();
                assert!(address.starts_with("file://") || address.starts_with("data:"), "{address}");
            }
        }
    }
}
