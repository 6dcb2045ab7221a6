// The stock web page of Qwen Code, used as a person does: a prompt is typed, an answer is waited for, and
// the page is loaded again.
//
// Arguments: the folder of the peers; a JSON object {url, browser, prompt, answer, screenshot}.
// Prints one JSON object: {text, reloaded, failed}: what the page says after the turn and after a reload,
// and the answers of 500 and above.

import { createRequire } from 'node:module';

const [folder, wish] = process.argv.slice(-2);
const { url, browser: executablePath, prompt, answer, screenshot } = JSON.parse(wish);
const { chromium } = createRequire(`${folder}/`)('playwright-core');

const browser = await chromium.launch({
  executablePath,
  args: [
    '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
    '--disable-background-networking', '--disable-component-update', '--disable-sync',
  ],
});
const page = await browser.newPage({ viewport: { width: 1200, height: 800 } });
const failed = [];
page.on('response', (response) => {
  if (response.status() >= 500) {
    failed.push(`${response.status()} ${response.request().method()} ${new URL(response.url()).pathname}`);
  }
});
// Whether the page holds the answer, however it is cut into elements.
const shows = (text) =>
  page.waitForFunction((text) => document.body.innerText.includes(text), text, { timeout: 20_000 });

await page.goto(url);
const composer = page.locator('textarea, [contenteditable=true], [role=textbox]').first();
await composer.click();
await page.keyboard.type(prompt);
await page.keyboard.press('Enter');
await shows(answer);
await page.screenshot({ path: screenshot });
const text = await page.locator('body').innerText();
await page.reload();
await shows(answer);
const reloaded = await page.locator('body').innerText();
await browser.close();
console.log(JSON.stringify({ text, reloaded, failed }));
