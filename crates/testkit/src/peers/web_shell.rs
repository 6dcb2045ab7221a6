//! The stock web page of Qwen Code, in a browser.

use std::{net::SocketAddr, path::PathBuf};

use serde_json::{Value, json};

use super::{folder, installed, node};
use crate::{home::Home, run::run};

const DRIVER: &str = include_str!("../../peers/web_shell.mjs");

/// Where Debian's package puts the browser.
const BROWSER: &str = "/usr/bin/chromium";

/// The page's files, and a browser that opens them.
#[derive(Debug, Clone)]
pub struct WebShell {
    folder: PathBuf,
}

impl WebShell {
    /// The installed one; `None`, said clearly, where there is none.
    #[must_use]
    pub fn find() -> Option<Self> {
        let folder = folder();
        let shell = Self { folder };
        let files = [
            node(&shell.folder),
            BROWSER.into(),
            shell.pages().join("index.html"),
            shell
                .folder
                .join("node_modules/playwright-core/package.json"),
        ];
        installed("Qwen Code's web page and Chromium", shell, &files)
    }

    /// The folder of the page's files.
    #[must_use]
    pub fn pages(&self) -> PathBuf {
        self.folder
            .join("node_modules/@qwen-code/qwen-code/web-shell")
    }

    /// Opens the page of a daemon, says `prompt`, and waits for `answer`, twice: after the turn and after
    /// a reload. Answers with `{text, reloaded, failed}`, see `peers/web_shell.mjs`.
    ///
    /// # Panics
    /// Where the answer does not come.
    #[must_use]
    pub fn chat(&self, home: &Home, daemon: SocketAddr, prompt: &str, answer: &str) -> Value {
        let wish = json!({
            "url": format!("http://{daemon}/"),
            "browser": BROWSER,
            "prompt": prompt,
            "answer": answer,
            "screenshot": home.path().join("page.png"),
        });
        let mut command = home.command(node(&self.folder));
        command
            .args(["--input-type=module", "--eval", DRIVER])
            .arg(&self.folder)
            .arg(wish.to_string());
        let ran = run(&mut command);
        match serde_json::from_str(&ran.stdout) {
            Ok(told) => told,
            Err(error) => panic!("{error}: {ran:?}"),
        }
    }
}
