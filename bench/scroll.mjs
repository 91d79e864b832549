// The list of all jobs in a real Chromium: opened, then scrolled down steadily through thousands of rows. Tells how long the
// first row took, how far apart the frames were, and how long the reader stood at the end, waiting for more rows.
import { existsSync } from 'node:fs';
import { chromium } from 'playwright-core';
import { tick } from './clock.mjs';
import { percentile } from './numbers.mjs';

const executablePath = [process.env.PUNCTUAL_CHROMIUM, '/usr/bin/chromium', '/usr/bin/google-chrome'].find(
  (file) => file !== undefined && existsSync(file),
);
const args = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--disable-background-networking', '--disable-sync'];
/** As fast as one can just still read along the names: ninety rows a second. */
const pixelsASecond = 5_000;

/** null where there is no Chromium. */
export async function scrollJobs(url, { rows, path = '#/jobs' }) {
  if (executablePath === undefined) return null;
  const browser = await chromium.launch({ executablePath, args });
  try {
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
    const from = tick();
    await page.goto(`${url}/${path}`);
    await page.locator('.trow').first().waitFor({ timeout: 60_000 });
    const firstRowMs = tick() - from;
    const { frames, stood, seen, drawn } = await page.evaluate(scroll, { rows, speed: pixelsASecond });
    return {
      firstRowMs,
      rows: seen,
      mostDrawn: drawn,
      stoodMs: stood,
      frame_p50: percentile(frames, 0.5),
      frame_p95: percentile(frames, 0.95),
      frame_p99: percentile(frames, 0.99),
      frame_max: Math.max(...frames),
    };
  } finally {
    await browser.close();
  }
}

/** Runs in the page. Scrolls by the time that passed since the last frame, so that a slow machine sees as many rows a second. */
function scroll({ rows, speed }) {
  return new Promise((resolve) => {
    const frames = [];
    let stood = 0;
    let drawn = 0;
    let before = performance.now();
    const seen = () => Math.max(0, ...[...document.querySelectorAll('.trow')].map((row) => row.ariaRowIndex - 1));
    const step = (now) => {
      const passed = now - before;
      before = now;
      frames.push(passed);
      const { scrollHeight } = document.documentElement;
      if (scrollY + innerHeight >= scrollHeight - 2) stood += passed;
      scrollBy(0, (speed * passed) / 1000);
      drawn = Math.max(drawn, document.querySelectorAll('.trow').length);
      if (seen() >= rows || stood > 30_000) resolve({ frames: frames.slice(1), stood, seen: seen(), drawn });
      else requestAnimationFrame(step);
    };
    requestAnimationFrame((now) => {
      before = now;
      requestAnimationFrame(step);
    });
  });
}
