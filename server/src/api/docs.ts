// The page at GET /docs, rendered from the OpenAPI document: every operation with its parameters, fields, answers and
// errors, and a command to try it. Self-contained, without scripts, so it holds under the strictest content policy; all
// text is escaped.
import type { OpenApiDocument, OperationObject, ResponseObject } from '@punctual/contract';
import { curlFor } from './docs_curl.ts';
import { countFields, fieldTable, parameterTable } from './docs_fields.ts';
import { docsStyle } from './docs_style.ts';
import { type Html, html, prose } from './html.ts';

interface Entry {
  method: string;
  path: string;
  operation: OperationObject;
}

/** Answers with more fields than this are folded, or they would bury the next operation. */
const maxUnfoldedFields = 8;

export function renderDocs(document: OpenApiDocument): string {
  const groups = document.tags.map((tag) => ({ ...tag, entries: entriesOf(document, tag.name) }));
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${document.info.title} API</title>
<style>${{ html: docsStyle }}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the operations</a>
<header><a class="brand" href="/">${logo}<span>${document.info.title}</span></a><span class="version">API ${document.info.version}</span>
<nav aria-label="Elsewhere"><a href="/">Dashboard</a><a href="/openapi.json">openapi.json</a></nav></header>
<div class="page">
<nav class="menu" aria-label="Operations" id="operations"><input type="checkbox" id="unfold"><label for="unfold">Operations</label>
<div class="list"><a class="top" href="#main">Start here</a>${groups.map(menuGroup)}<a class="top" href="#errors">Errors</a></div></nav>
<main id="main">
${introduction(document)}
${groups.map(
  (group) => html`<section><h2 id="tag-${group.name}">${group.name}</h2><p>${prose(group.description)}</p>
${group.entries.map((entry) => article(entry, document))}</section>`,
)}
${errorSection(document)}
</main></div></body></html>
`;
  return page.html;
}

const logo = html`<svg viewBox="0 0 32 32" width="24" height="24" aria-hidden="true"><circle cx="16" cy="16" r="13" fill="none" stroke="currentColor" stroke-width="3"/><path d="M10 16.5l4.5 4.5L23 11" fill="none" stroke="currentColor" stroke-width="3" stroke-linecap="round" stroke-linejoin="round"/></svg>`;

function entriesOf(document: OpenApiDocument, tag: string): Entry[] {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item)
      .filter(([, operation]) => operation.tags.includes(tag))
      .map(([method, operation]) => ({ method, path, operation })),
  );
}

function menuGroup(group: { name: string; entries: Entry[] }): Html {
  return html`<p><a href="#tag-${group.name}">${group.name}</a></p><ul>${group.entries.map(
    ({ method, path, operation }) =>
      html`<li><a href="#${operation.operationId}" title="${operation.summary}">${methodMark(method)}<span>${path}</span></a></li>`,
  )}</ul>`;
}

function methodMark(method: string): Html {
  return html`<b class="method ${method}">${method.toUpperCase()}</b>`;
}

function serverOf(document: OpenApiDocument): string {
  const url = document.servers[0]?.url ?? '/';
  return url === '/' ? 'http://127.0.0.1:7600' : url.replace(/\/$/, '');
}

function introduction(document: OpenApiDocument): Html {
  const server = serverOf(document);
  return html`<section class="intro"><h1>${document.info.title} API</h1><p class="lead">${prose(document.info.summary)}.</p>
<p>${prose(document.info.description)}</p>
<p>Submit a first job; the answer names it:</p>
<pre><code>curl -X POST "${server}/jobs" \\
  -H 'Content-Type: application/json' \\
  -d '{"type":"echo","payload":{"greeting":"hello, world"}}'</code></pre>
<p>Then ask how it went. The examples below take the ids of that answer from the shell:</p>
<pre><code>JOB_ID=… RUN_ID=…
curl "${server}/jobs/$JOB_ID/status"</code></pre></section>`;
}

function article({ method, path, operation }: Entry, document: OpenApiDocument): Html {
  const { schemas } = document.components;
  const body = operation.requestBody?.content['application/json'];
  return html`<article id="${operation.operationId}">
<h3><a href="#${operation.operationId}">${methodMark(method)} <span class="path">${path}</span></a></h3>
<p class="summary">${prose(operation.summary)}<a class="back" href="#operations" aria-label="Back to the list of operations">↑</a></p>
${operation.description === undefined ? undefined : html`<p>${prose(operation.description)}</p>`}
<p class="faint">${prose(accessWords(operation))}</p>
<pre><code>${curlFor({ server: serverOf(document), method, path, operation }, schemas)}</code></pre>
${operation.parameters === undefined ? undefined : html`<h4>Parameters</h4>${parameterTable(operation.parameters)}`}
${body === undefined ? undefined : html`<h4>Body</h4>${fieldTable(body.schema, schemas, 'body')}`}
<h4>Answers</h4>${answers(operation, document)}
</article>`;
}

/** Who may call it, once the server asks for keys. */
function accessWords(operation: OperationObject): string {
  const roles = operation['x-roles'];
  if (roles === undefined) return 'Needs no key.';
  const whose = { own: "; a key of a user meets only that user's rows", all: '; not for keys of a user' }[
    operation['x-rows'] ?? ''
  ];
  return `Needs a key of the role ${roles.join(', ')}${whose ?? ''}.`;
}

function answers(operation: OperationObject, document: OpenApiDocument): Html {
  const all = Object.entries(operation.responses);
  const errors = all.flatMap(([, answer]) => codesOf(answer, document));
  return html`${all.map(([status, answer]) => success(status, answer, document))}
<details><summary>Errors: ${errors.map((code) => html`<code>${code}</code> `)}</summary>${errorTable(errors, document)}</details>`;
}

function success(
  status: string,
  answer: ResponseObject | { $ref: string },
  document: OpenApiDocument,
): Html | undefined {
  if (!('content' in answer)) return undefined;
  const media = answer.content['application/json'];
  if (media === undefined) return undefined;
  const headers = Object.entries(answer.headers ?? {});
  const short = countFields(media.schema, document.components.schemas) <= maxUnfoldedFields;
  return html`<details${short ? html` open` : undefined}><summary><b class="status">${status}</b> ${prose(answer.description)}</summary>
${headers.map(([name, header]) => html`<p>Header <code>${name}</code>: ${prose(header.description)}.</p>`)}
${fieldTable(media.schema, document.components.schemas, 'answer')}</details>`;
}

/** The codes an answer may carry; shared answers are looked up. */
function codesOf(answer: ResponseObject | { $ref: string }, document: OpenApiDocument): string[] {
  const found =
    'content' in answer ? answer : document.components.responses[answer.$ref.slice('#/components/responses/'.length)];
  return Object.keys(found?.content['application/problem+json']?.examples ?? {});
}

function errorTable(codes: readonly string[], document: OpenApiDocument, anchors = false): Html {
  return html`<div class="scroll"><table><thead><tr><th>Status</th><th>Code</th><th>Meaning</th></tr></thead><tbody>${codes.map(
    (code) => {
      const entry = document['x-errors'][code];
      const name = anchors
        ? html`<code id="error-${code}">${code}</code>`
        : html`<a href="#error-${code}"><code>${code}</code></a>`;
      return html`<tr><td data-label="Status">${entry?.status}</td><td data-label="Code">${name}</td><td data-label="Meaning">${prose(entry?.meaning)}</td></tr>`;
    },
  )}</tbody></table></div>`;
}

function errorSection(document: OpenApiDocument): Html {
  const problem = document.components.schemas.Problem;
  return html`<section><h2 id="errors">Errors</h2>
<p>Every error is <code>application/problem+json</code>. Branch on <code>code</code>: codes are stable, words may change.</p>
${errorTable(Object.keys(document['x-errors']), document, true)}
${problem === undefined ? undefined : html`<h4>Fields of an error</h4>${fieldTable(problem, document.components.schemas, 'answer')}`}</section>`;
}
