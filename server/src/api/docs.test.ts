// The docs page: complete, self-contained, and safe whatever stands in the document.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { buildOpenApi, components, errorTable, type OpenApiDocument, type Route, routes } from '@punctual/contract';
import { renderDocs } from './docs.ts';
import { sample } from './docs_curl.ts';

const document = buildOpenApi({
  routes,
  components,
  errorTable,
  version: '1.2.3',
  serverUrl: 'http://jobs.example:7600',
});
const page = renderDocs(document);

function articleOf(operation: string): string {
  const start = page.indexOf(`<article id="${operation}">`);
  assert.notEqual(start, -1, `${operation} has no article`);
  return page.slice(start, page.indexOf('</article>', start));
}

test('every operation has an article, a link to it in the menu, and a curl command', () => {
  for (const route of Object.values(routes as Record<string, Route>)) {
    const article = articleOf(route.operation);
    assert.ok(page.includes(`<li><a href="#${route.operation}"`), `${route.operation} is not in the menu`);
    assert.ok(article.includes(`<span class="path">${route.path}</span>`));
    assert.ok(article.includes('<pre><code>curl '), `${route.operation} has no command`);
    for (const code of route.errors)
      assert.ok(article.includes(`href="#error-${code}"`), `${route.operation} lacks ${code}`);
  }
});

test('every error code stands in the table of errors with its meaning', () => {
  for (const code of Object.keys(errorTable))
    assert.ok(page.includes(`<code id="error-${code}">`), `${code} is missing`);
  assert.ok(page.includes('The body is not valid JSON.'));
});

test('every link within the page leads somewhere', () => {
  const ids = new Set([...page.matchAll(/\sid="([^"]+)"/g)].map((match) => match[1]));
  for (const [, target] of page.matchAll(/href="#([^"]+)"/g)) assert.ok(ids.has(target), `#${target} leads nowhere`);
});

test('nested fields are named as one would write them, with limits and defaults', () => {
  const article = articleOf('createJob');
  assert.ok(article.includes('<span class="way">backoff.</span>base_ms'));
  assert.ok(article.includes('<span class="way">executor.</span>url'));
  assert.ok(article.includes('0 to 9'));
  assert.ok(article.includes('default <code>5</code>'));
  assert.ok(articleOf('listRuns').includes('<span class="way">runs[].</span>status'));
});

test('a body says what must be there, an answer what may be missing', () => {
  const article = articleOf('createJob');
  const [request = '', answer = ''] = article.split('<h4>Answers</h4>');
  assert.ok(!answer.includes('class="required"'));
  assert.match(answer, /run_id<\/code> <span class="optional">/);
  assert.ok(!request.includes('class="optional"'));
  assert.match(articleOf('createJobs'), /jobs<\/code> <span class="required">/);
});

test('the commands speak to the server of the document and take ids from the shell', () => {
  assert.ok(articleOf('getJob').includes('curl &quot;http://jobs.example:7600/jobs/$JOB_ID&quot;'));
  assert.ok(articleOf('createJob').includes('-d &#39;{&quot;name&quot;:&quot;hello&quot;'));
});

test('an operation without an example gets the smallest body that fits', () => {
  assert.deepEqual(sample({ $ref: '#/components/schemas/SyncRequest' }, document.components.schemas), {
    session_id: '01980000-0000-7000-8000-000000000000',
    n: 1,
    concluded: 0,
    accept: false,
    wait: false,
  });
});

test('nothing is loaded from elsewhere and nothing is a script', () => {
  assert.doesNotMatch(page, /<script|<link|<img|<iframe|\ssrc=|\son\w+=|\sstyle=|url\(|@import/i);
  const outside = [...page.matchAll(/href="([^"#][^"]*)"/g)].map((match) => match[1]);
  assert.deepEqual(new Set(outside), new Set(['/', '/openapi.json']));
});

test('text of the document cannot become markup', () => {
  const evil = `<img src=x onerror="alert('1')">&`;
  const spoiled = JSON.parse(
    JSON.stringify(document, (key, value: unknown) =>
      ['summary', 'description', 'meaning'].includes(key) ? evil : value,
    ),
  ) as OpenApiDocument;
  const rendered = renderDocs(spoiled);
  assert.ok(!rendered.includes('<img'));
  assert.ok(rendered.includes('&lt;img src=x onerror=&quot;alert(&#39;1&#39;)&quot;&gt;&amp;'));
});

test('a single quote in an example does not end the quoted body of the command', () => {
  const route: Route = { ...routes.createJob, example: { name: "it's" } };
  const rendered = renderDocs(buildOpenApi({ routes: { route }, components, errorTable, version: '1' }));
  assert.ok(rendered.includes(`{&quot;name&quot;:&quot;it&#39;\\&#39;&#39;s&quot;}`));
});
