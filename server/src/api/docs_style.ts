// The look of the docs page: one sheet, light and dark, and one column on a phone, where table rows become cards.
// Called by docs.ts.

export const docsStyle = `
:root{color-scheme:light dark;--bg:#fbfbfa;--card:#fff;--ink:#1c2128;--soft:#5b6570;--line:#e1e4e8;--code:#f3f4f6;--accent:#0b6e5f;
--get:#1261a8;--post:#0b6e5f;--put:#8a5a00;--delete:#b3261e}
@media (prefers-color-scheme:dark){:root{--bg:#12161b;--card:#191f26;--ink:#e4e8ec;--soft:#9aa5b1;--line:#2c343d;--code:#222a33;--accent:#4fd1b5;
--get:#73b7f5;--post:#4fd1b5;--put:#e3b341;--delete:#ff8a80}}
*{box-sizing:border-box}
html{scroll-padding-top:4.5rem}
body{margin:0;background:var(--bg);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
a{color:var(--accent)}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px;border-radius:3px}
code,pre,.path{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:.875em}
code{background:var(--code);border-radius:4px;padding:.1em .3em;overflow-wrap:anywhere}
pre{background:var(--code);border:1px solid var(--line);border-radius:8px;padding:.8rem 1rem;overflow-x:auto}
pre code{background:none;padding:0;overflow-wrap:normal}
.skip{position:absolute;left:-99rem}
.skip:focus{left:1rem;top:.5rem;background:var(--card);padding:.3rem .6rem;z-index:9}
header{position:sticky;top:0;z-index:5;display:flex;align-items:center;gap:.8rem;padding:.7rem 1.5rem;background:var(--card);border-bottom:1px solid var(--line)}
.brand{display:flex;align-items:center;gap:.5rem;color:var(--ink);font-weight:650;text-decoration:none}
.brand svg{color:var(--accent)}
.version{color:var(--soft);font-size:.875rem}
header nav{margin-left:auto;display:flex;gap:1rem;font-size:.9rem}
.page{display:grid;grid-template-columns:19rem minmax(0,1fr);max-width:90rem;margin:0 auto}
.menu{position:sticky;top:3rem;align-self:start;height:calc(100vh - 3rem);overflow-y:auto;padding:1.2rem 1rem 2rem 1.5rem;border-right:1px solid var(--line);font-size:.85rem}
.menu input,.menu label{display:none}
.menu p{margin:1.1rem 0 .3rem;font-weight:650;text-transform:capitalize}
.menu p a,.menu .top{color:var(--ink);text-decoration:none}
.menu .top{display:block;margin:.9rem 0 0;font-weight:650}
.menu ul{list-style:none;margin:0;padding:0}
.menu li a{display:flex;gap:.5rem;align-items:baseline;padding:.22rem .3rem;border-radius:5px;color:var(--soft);text-decoration:none}
.menu li a:hover{background:var(--code);color:var(--ink)}
.menu li span{overflow-wrap:anywhere}
.method{font:700 .68rem/1 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;letter-spacing:.02em}
.menu .method{flex:0 0 3.1rem;text-align:right}
.method.get{color:var(--get)}.method.post{color:var(--post)}.method.put{color:var(--put)}.method.delete{color:var(--delete)}
main{padding:1.5rem 2.5rem 6rem;min-width:0}
h1{font-size:1.9rem;line-height:1.2;margin:.5rem 0}
.lead{font-size:1.15rem;color:var(--soft);margin-top:0}
.intro{max-width:48rem}
h2{margin:3rem 0 .2rem;font-size:1.45rem;text-transform:capitalize}
h2+p{color:var(--soft);margin-top:0}
article{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:1.1rem 1.4rem 1.3rem;margin:1.2rem 0}
article:target{border-color:var(--accent);box-shadow:0 0 0 1px var(--accent)}
h3{margin:0;font-size:1.05rem}
h3 a{color:var(--ink);text-decoration:none;display:flex;gap:.6rem;align-items:center;flex-wrap:wrap}
h3 .method{font-size:.75rem;border:1px solid currentColor;border-radius:5px;padding:.25rem .4rem}
h3 .path{font-size:1rem;overflow-wrap:anywhere}
.summary{margin:.5rem 0;font-weight:550;display:flex}
.back{margin-left:auto;padding:0 .5rem;text-decoration:none;color:var(--soft)}
h4{margin:1.3rem 0 .4rem;font-size:.78rem;text-transform:uppercase;letter-spacing:.06em;color:var(--soft)}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.875rem}
th{text-align:left;font-weight:600;color:var(--soft);border-bottom:1px solid var(--line);padding:.35rem .7rem .35rem 0;white-space:nowrap}
td{vertical-align:top;border-bottom:1px solid var(--line);padding:.4rem .7rem .4rem 0}
tr:last-child td{border-bottom:0}
td:first-child{white-space:nowrap}
td:last-child{min-width:14rem}
.way{color:var(--soft)}
.pattern{color:var(--soft);font-size:.75rem}
.optional{font-size:.7rem;color:var(--soft)}
td[data-label="Code"]{white-space:nowrap}
.required{font-size:.7rem;color:var(--delete)}
details{border-top:1px solid var(--line);padding:.5rem 0}
h4+details{border-top:0}
summary{cursor:pointer;font-size:.9rem;line-height:1.8}
details[open] summary{margin-bottom:.5rem}
.status{color:var(--post)}
tr:has(:target) td{background:var(--code)}
@media (max-width:60rem){
.page{display:block}
header{padding:.6rem 1rem;flex-wrap:wrap;gap:.3rem .7rem}
header nav{gap:.8rem;font-size:.85rem}
html{scroll-padding-top:5.5rem}
.menu{position:static;height:auto;border-right:0;border-bottom:1px solid var(--line);padding:.6rem 1rem}
.menu input{display:block;position:absolute;opacity:0}
.menu label{display:block;font-weight:650;font-size:1rem;padding:.4rem 0;cursor:pointer}
.menu label::after{content:" ▾";color:var(--soft)}
.menu input:focus-visible+label{outline:2px solid var(--accent)}
.menu .list{display:none}
.menu input:checked~.list{display:block}
.menu li a{padding:.5rem .3rem;font-size:.95rem}
main{padding:1rem 1rem 4rem}
article{padding:1rem}
}
@media (max-width:42rem){
thead{position:absolute;left:-99rem}
table,tbody,tr,td{display:block}
tr{padding:.6rem 0;border-bottom:1px solid var(--line)}
tr:last-child{border-bottom:0}
td,td:first-child{border:0;padding:.05rem 0;white-space:normal}
td:empty{display:none}
td[data-label="Where"],td[data-label="Type"],td[data-label="Limits"]{color:var(--soft);font-size:.82rem}
td[data-label="Where"]::before{content:"in "}
td[data-label="Where"],td[data-label="Type"]{display:inline;padding-right:.5rem}
td[data-label="Status"]{display:inline;padding-right:.5rem}td[data-label="Code"]{display:inline}
}
`;
