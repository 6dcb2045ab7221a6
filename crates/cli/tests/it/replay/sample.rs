//! What a capture holds.

use std::{fs, path::Path};

use serde_json::Value;

/// One step of a captured session.
#[derive(Debug)]
pub(super) enum Step {
    /// The host sent this line.
    Said(String),
    /// Qwen Code sent this message.
    Heard(Value),
    /// The host closed its input.
    Closed,
}

/// A capture.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) name: String,
    /// Without the program and its formats.
    pub(super) args: Vec<String>,
    pub(super) steps: Vec<Step>,
    /// All of standard output.
    pub(super) heard: Vec<Value>,
}

impl Sample {
    /// Reads the sample of that name.
    pub(super) fn read(samples: &Path, name: &str) -> Self {
        let recorder = samples.join("recorder");
        let place = recorder.join(name);
        let timeline = if place.is_dir() {
            place.join("timeline.txt")
        } else {
            recorder.join(format!("{name}.timeline.txt"))
        };
        let timeline = fs::read_to_string(timeline).unwrap();
        let steps: Vec<Step> = timeline.lines().filter_map(step).collect();
        let argv = fs::read_to_string(place.join("argv")).unwrap_or_default();
        // Long lines are cut in a timeline, so the messages are those of standard output.
        let heard = match fs::read_to_string(place.join("stdout")) {
            Ok(stdout) => messages(&stdout),
            Err(_) => steps
                .iter()
                .filter_map(|step| match step {
                    Step::Heard(message) => Some(message.clone()),
                    Step::Said(_) | Step::Closed => None,
                })
                .collect(),
        };
        Self {
            name: name.to_owned(),
            args: words(argv.trim()),
            steps,
            heard,
        }
    }

    /// The project folder of the capture.
    pub(super) fn folder(&self) -> String {
        let init = self.heard.iter().find(|m| m["subtype"] == "init").unwrap();
        init["cwd"].as_str().unwrap().to_owned()
    }
}

/// The arguments without the program's name. They were joined by blanks, and a prompt may hold some.
fn words(argv: &str) -> Vec<String> {
    let flags = |text: &str| -> Vec<String> {
        let words = text.split_whitespace().filter(|word| *word != "qwen");
        words.map(str::to_owned).collect()
    };
    let Some((before, prompt)) = argv.split_once(" -p ") else {
        return flags(argv);
    };
    let (prompt, after) = prompt.split_once(" --output-format").map_or_else(
        || (prompt, String::new()),
        |(prompt, after)| (prompt, format!("--output-format{after}")),
    );
    let mut words = flags(before);
    words.extend(["-p".to_owned(), prompt.to_owned()]);
    words.extend(flags(&after));
    words
}

fn messages(stdout: &str) -> Vec<Value> {
    if stdout.starts_with('[') {
        return serde_json::from_str(stdout).unwrap();
    }
    let lines = stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn step(line: &str) -> Option<Step> {
    let (_, line) = line.trim_start().split_once(' ')?;
    let (mark, text) = line.split_once(' ')?;
    match mark {
        "O" | "<" => serde_json::from_str(text).ok().map(Step::Heard),
        ">" => Some(Step::Said(text.to_owned())),
        "N" if text.eq_ignore_ascii_case("stdin closed") => Some(Step::Closed),
        "N" => text
            .strip_prefix("STDIN ")
            .map(|line| Step::Said(line.to_owned())),
        _ => None,
    }
}
