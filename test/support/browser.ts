// The dashboard in a real Chromium, over a real house:
//
//   describe('…', { skip: noBrowser }, () => {
//     await using window = await openWindow({ path: '#/runs' });
//     await window.page.getByRole('heading', { name: 'Runs' }).waitFor();
//
// One browser for each test file, one house and page for each window. A window fails its test when it closes, if the page
// wrote an error to its console or threw one, unless the test said with `expectErrors` that it would.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { after } from 'node:test';
import axe from 'axe-core';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { type House, type HouseOptions, openHouse } from './house.ts';

const chromiumPath = [
  process.env['PUNCTUAL_CHROMIUM'],
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
].find((file) => file !== undefined && existsSync(file));

/** For the `skip` of a suite: why there is nothing to test with, or false. */
export const noBrowser: string | false =
  chromiumPath === undefined ? 'no Chromium was found; PUNCTUAL_CHROMIUM may name one' : false;

const flags = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

let browser: Promise<Browser> | undefined;

function openBrowser(): Promise<Browser> {
  browser ??= chromium.launch({ executablePath: chromiumPath ?? '', args: flags, timeout: 120_000 });
  return browser;
}

after(async () => (await browser)?.close());

/** A browser takes the machine from the workers for a while: their leases must not run out meanwhile. */
export const calmTimes = { heartbeat_ms: 1_000, lease_ms: 30_000, lease_margin_ms: 3_000 } as const;

export const sizes = {
  desktop: { width: 1280, height: 800 },
  phone: { width: 360, height: 740 },
} as const;

export interface WindowOptions {
  /** What comes after the address of the server: `#/runs`. */
  path?: string;
  /** A house of the test's own, which it closes itself; otherwise one is opened, with a worker. */
  house?: House;
  houseOptions?: HouseOptions;
  size?: keyof typeof sizes;
  colours?: 'light' | 'dark';
  /** What else the browser is told, such as its time zone. */
  context?: BrowserContextOptions;
}

export class Window implements AsyncDisposable {
  readonly page: Page;
  readonly house: House;
  readonly #ownsHouse: boolean;
  readonly #errors: string[] = [];
  readonly #expected: RegExp[] = [];
  /** The test has failed already: what else is wrong is only told. */
  #failed = false;

  constructor(page: Page, house: House, ownsHouse: boolean) {
    this.page = page;
    this.house = house;
    this.#ownsHouse = ownsHouse;
    page.on('pageerror', (error) => this.#errors.push(String(error.stack ?? error)));
    page.on('console', (message) => {
      if (message.type() === 'error') this.#errors.push(`${message.text()} (${message.location().url})`);
    });
  }

  /** The browser writes failed requests to the console: a test that provokes them says so. */
  expectErrors(...patterns: RegExp[]): void {
    this.#expected.push(...patterns);
  }

  /** To another place of the dashboard, as a link would. */
  async go(place: string): Promise<void> {
    await this.page.evaluate(
      (hash) =>
        new Promise<void>((done) => {
          const { location, addEventListener } = globalThis as unknown as Browsing;
          if (location.hash === hash) return done();
          addEventListener('hashchange', () => done(), { once: true });
          location.hash = hash;
        }),
      place,
    );
  }

  /** Until nothing more is awaited from the server, streams apart, and no place says that it waits. */
  async settled(): Promise<void> {
    const drawn = 'new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))';
    await this.page.evaluate(drawn);
    await this.page.locator('main .pending').first().waitFor({ state: 'detached' });
    await this.page.evaluate(drawn);
  }

  /** Writes a picture into the folder that PUNCTUAL_SCREENSHOTS names; without it none is taken. */
  async screenshot(name: string, options: { fullPage?: boolean } = {}): Promise<void> {
    const folder = process.env['PUNCTUAL_SCREENSHOTS'];
    if (folder === undefined || folder === '') return;
    mkdirSync(folder, { recursive: true });
    await this.page.screenshot({ path: path.join(folder, `${name}.png`), ...options });
  }

  /** What axe finds against the page that hinders people seriously; a test wants none. Other colours need only contrast. */
  async checkAccess(only?: 'contrast'): Promise<void> {
    await this.settled();
    if (!(await this.page.evaluate<boolean>('"axe" in globalThis'))) await this.page.evaluate(axe.source);
    const rules = only === 'contrast' ? ['color-contrast'] : undefined;
    const found = await this.page.evaluate(async (runOnly) => {
      const run = (globalThis as unknown as { axe: { run: (options: object) => Promise<Findings> } }).axe;
      const { violations } = await run.run({
        resultTypes: ['violations'],
        ...(runOnly === undefined ? {} : { runOnly }),
      });
      return violations
        .filter(({ impact }) => impact === 'serious' || impact === 'critical')
        .map(
          ({ id, help, nodes }) =>
            `${id}: ${help}\n${nodes
              .map((node) => `    ${node.html}\n      ${node.failureSummary}`)
              .slice(0, 5)
              .join('\n')}`,
        );
    }, rules);
    this.#failed ||= found.length > 0;
    assert.deepEqual(found, [], `axe found at ${this.page.url()}`);
  }

  /** Nothing may be wider than the screen. */
  async checkWidth(): Promise<void> {
    const [wide, room] = await this.page.evaluate<[number, number]>(
      '[document.documentElement.scrollWidth, document.documentElement.clientWidth]',
    );
    this.#failed ||= wide > room;
    assert.ok(wide <= room, `${this.page.url()} is ${wide} px wide on a screen of ${room}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.page.context().close();
    if (this.#ownsHouse) await this.house[Symbol.asyncDispose]();
    const unexpected = this.#errors.filter((error) => !this.#expected.some((pattern) => pattern.test(error)));
    if (unexpected.length === 0) return;
    // Thrown over another failure, which is then the one that is told, this one would go unseen.
    console.error('the page had errors:', unexpected);
    if (!this.#failed) assert.fail(`the page had errors: ${unexpected.join()}`);
  }
}

/** What a page knows and this program does not. */
interface Browsing {
  location: { hash: string };
  addEventListener: (name: string, listener: () => void, options: { once: boolean }) => void;
}

interface Findings {
  violations: {
    id: string;
    help: string;
    impact: string;
    nodes: { html: string; failureSummary: string }[];
  }[];
}

export async function openWindow(options: WindowOptions = {}): Promise<Window> {
  const { path: place = '', size = 'desktop', colours = 'light' } = options;
  const house = options.house ?? (await openHouse({ workers: 1, config: calmTimes, ...options.houseOptions }));
  const context = await (await openBrowser()).newContext({
    viewport: sizes[size],
    colorScheme: colours,
    locale: 'en-GB',
    timezoneId: 'UTC',
    reducedMotion: 'reduce',
    ...options.context,
  });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const window = new Window(page, house, options.house === undefined);
  await page.goto(`${house.url}/${place}`);
  return window;
}
