import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Blocks, cells } from '../../static/chat/markdown/blocks.js';
import { parseInline, safeCut } from '../../static/chat/markdown/inline.js';
import { safeHref } from '../../static/chat/markdown/links.js';

/** A short form of the tree, to compare by eye. */
function outline(block) {
  switch (block.type) {
    case 'paragraph':
      return `p(${block.text})`;
    case 'heading':
      return `h${block.level}(${block.text})`;
    case 'fence':
      return `code[${block.info}](${block.lines.join('\n')})`;
    case 'rule':
      return 'hr';
    case 'table':
      return `table(${block.head.join('|')};${block.rows.map((row) => row.join('|')).join(';')})`;
    case 'item':
      return `${block.task === null ? '' : block.task ? 'x' : 'o'}li(${block.children.map(outline).join(' ')})`;
    case 'list':
      return `${block.start === null ? 'ul' : `ol${block.start}`}(${block.children.map(outline).join(' ')})`;
    case 'quote':
      return `quote(${block.children.map(outline).join(' ')})`;
    default:
      return block.children.map(outline).join(' ');
  }
}

function whole(text) {
  const blocks = new Blocks();
  blocks.append(text);
  blocks.finish();
  return outline(blocks.document);
}

function soFar(text) {
  const blocks = new Blocks();
  blocks.append(text);
  return outline(blocks.document);
}

function inlines(nodes) {
  return nodes
    .map((node) => {
      if (node.type === 'text') return node.text;
      if (node.type === 'code') return `<code>${node.text}</code>`;
      if (node.type === 'break') return '<br>';
      const tag = node.type === 'link' ? `a ${node.href}` : node.type;
      return `<${tag}>${inlines(node.children)}</${node.type}>`;
    })
    .join('');
}

const done = (text) => inlines(parseInline(text, false).nodes);
const open = (text) => inlines(parseInline(text, true).nodes);

const BLOCKS = [
  ['paragraphs', 'one\ntwo\n\nthree', 'p(one\ntwo) p(three)'],
  ['headings', '# A\n## B ##\n####### no', 'h1(A) h2(B) p(####### no)'],
  ['a heading ends a paragraph', 'a\n# B\nc', 'p(a) h1(B) p(c)'],
  ['a rule, not an underlined heading', 'a\n---\nb', 'p(a) hr p(b)'],
  ['rules of other marks', '***\n_ _ _', 'hr hr'],
  ['a fence keeps what is in it', '```py x\n# a\n\n  b\n```\nc', 'code[py x](# a\n\n  b) p(c)'],
  ['a longer fence around a shorter one', '````\n```\n````', 'code[](```)'],
  ['a tilde fence', '~~~\na\n```\n~~~', 'code[](a\n```)'],
  ['a fence that never ends', '```js\na', 'code[js](a)'],
  ['an inline fence is text', '```a```', 'p(```a```)'],
  ['bullets', '- a\n- b\n* c', 'ul(li(p(a)) li(p(b))) ul(li(p(c)))'],
  ['numbers', '3. a\n4. b', 'ol3(li(p(a)) li(p(b)))'],
  ['nested lists', '- a\n  - b\n    1. c\n- d', 'ul(li(p(a) ul(li(p(b) ol1(li(p(c)))))) li(p(d)))'],
  ['a list over empty lines', '- a\n\n- b\n\n  more\n\nend', 'ul(li(p(a)) li(p(b) p(more))) p(end)'],
  ['a fence in an item', '1. a\n\n   ```sh\n   ls\n   ```\n2. b', 'ol1(li(p(a) code[sh](ls)) li(p(b)))'],
  ['tasks', '- [ ] a\n- [x] b\n- [y] c', 'ul(oli(p(a)) xli(p(b)) li(p([y] c)))'],
  ['a number does not interrupt a paragraph', 'in\n2024. it', 'p(in\n2024. it)'],
  ['one does', 'a\n1. b', 'p(a) ol1(li(p(b)))'],
  ['quotes', '> a\n> > b\n\nc', 'quote(p(a) quote(p(b))) p(c)'],
  ['a lazy line belongs to the quote', '> a\nb', 'quote(p(a\nb))'],
  ['a list in a quote', '> - a\n> - b', 'quote(ul(li(p(a)) li(p(b))))'],
  ['a table', '| a | b |\n|---|--:|\n| 1 | 2 |\n| 3 |\n\nx', 'table(a|b;1|2;3) p(x)'],
  ['a table without outer bars', 'a | b\n--- | ---\n1 | 2', 'table(a|b;1|2)'],
  ['too few columns make no table', '| a | b |\n|---|', 'p(| a | b |\n|---|)'],
  ['tabs', '-\ta\n\n\tb', 'ul(li(p(a) p(b)))'],
  ['carriage returns', 'a\r\n\r\nb\r\n', 'p(a) p(b)'],
  ['an empty item', '-\n- a', 'ul(li() li(p(a)))'],
  ['an item after an empty one and a blank line', '-\n\n- a', 'ul(li() li(p(a)))'],
];

for (const [name, text, expected] of BLOCKS) {
  test(`blocks: ${name}`, () => assert.equal(whole(text), expected));
  test(`blocks: ${name}, cut anywhere`, () => {
    for (let size = 1; size <= 5; size += 1) {
      const blocks = new Blocks();
      for (let at = 0; at < text.length; at += size) blocks.append(text.slice(at, at + size));
      blocks.finish();
      assert.equal(outline(blocks.document), expected, `pieces of ${size}`);
    }
  });
}

test('blocks: what is settled never changes again', () => {
  const text = BLOCKS.map(([, source]) => source).join('\n\n');
  const blocks = new Blocks();
  const seen = new Map();
  for (const character of text) {
    blocks.append(character);
    blocks.document.children.forEach((child, index) => {
      if (seen.has(index)) assert.equal(outline(child), seen.get(index));
      else if (child.settled) seen.set(index, outline(child));
    });
  }
  assert.ok(seen.size > 30);
});

test('blocks: marks that may become anything are not drawn yet', () => {
  for (const marks of ['#', '##', '-', '*', '`', '``', '~', '> ', '--']) assert.equal(soFar(`a\n\n${marks}`), 'p(a)', marks);
  assert.equal(whole('a\n\n##'), 'p(a) h2()');
  assert.equal(soFar('42'), 'p(42)');
  assert.equal(soFar('- ['), 'ul(li())');
  assert.equal(soFar('- [x'), 'ul(li())');
});

test('blocks: half a closing fence is not code', () => {
  assert.equal(soFar('```\na\n``'), 'code[](a)');
  assert.equal(soFar('```\na\n``b'), 'code[](a\n``b)');
});

test('blocks: the row under a likely table head is not drawn as text', () => {
  assert.equal(soFar('| a | b |\n|--'), 'p(| a | b |)');
  assert.equal(soFar('| a | b |\n|--|--'), 'table(a|b;)');
});

test('blocks: hostile depth ends as text', () => {
  const text = '>'.repeat(20000);
  assert.ok(whole(text).startsWith('quote(quote('));
  assert.ok(whole(`${'- '.repeat(20000)}a`).length > 0);
});

test('blocks: headings leave no level out, whatever the text does', () => {
  const blocks = new Blocks();
  blocks.append('### a\n##### b\n# c\n## d\n#### e\n## f\n');
  assert.deepEqual(blocks.document.children.map(({ level, rank }) => `${level}>${rank}`), ['3>1', '5>2', '1>1', '2>2', '4>3', '2>2']);
});

test('cells: an escaped bar does not separate', () => {
  assert.deepEqual(cells('| a \\| b | c |'), ['a | b', 'c']);
  assert.deepEqual(cells('|  | c |'), ['', 'c']);
});

const INLINES = [
  ['plain & **bold**', 'plain & <strong>bold</strong>'],
  ['*a* _b_ __c__ ~~d~~', '<em>a</em> <em>b</em> <strong>c</strong> <del>d</del>'],
  ['***a***', '<em><strong>a</strong></em>'],
  ['*a **b***', '<em>a <strong>b</strong></em>'],
  ['**a *b***', '<strong>a <em>b</em></strong>'],
  ['snake_case_name 2 * 3 * 4', 'snake_case_name 2 * 3 * 4'],
  ['a*b*c', 'a<em>b</em>c'],
  ['**a', '**a'],
  ['`a **b**` c', '<code>a **b**</code> c'],
  ['`` a`b ``', '<code>a`b</code>'],
  ['`a', '`a'],
  ['\\*a\\* \\q', '*a* \\q'],
  ['a  \nb\\\nc\nd', 'a<br>b<br>c\nd'],
  ['[a **b**](https://x.dev/y "t")', '<a https://x.dev/y>a <strong>b</strong></link>'],
  ['[a](http://x.dev/(1))', '<a http://x.dev/(1)>a</link>'],
  ['[a](javascript:alert(1)) [b](data:text/html,x)', '<a null>a</link> <a null>b</link>'],
  ['[a](/relative)', '<a null>a</link>'],
  ['[1] and [x](', '[1] and [x]('],
  ['![alt](https://x.dev/i.png)', '<a https://x.dev/i.png>alt</link>'],
  ['see https://x.dev/a_b, or (https://x.dev/c).', 'see <a https://x.dev/a_b>https://x.dev/a_b</link>, or (<a https://x.dev/c>https://x.dev/c</link>).'],
  ['<https://x.dev> <b>', '<a https://x.dev/>https://x.dev</link> <b>'],
  ['&lt;a&gt; &#65;&#x42; &nope; &#0;', '<a> AB &nope; \ufffd'],
  ['<script>alert(1)</script>', '<script>alert(1)</script>'],
];

for (const [text, expected] of INLINES) test(`inline: ${text}`, () => assert.equal(done(text), expected));

const UNFINISHED = [
  ['a **b', 'a <strong>b</strong>'],
  ['a **b*', 'a <strong>b</strong>'],
  ['a **', 'a '],
  ['a *b', 'a <em>b</em>'],
  ['**a** and *b **c', '<strong>a</strong> and <em>b <strong>c</strong></em>'],
  ['a `b', 'a <code>b</code>'],
  ['a `', 'a '],
  ['a ``b`', 'a <code>b</code>'],
  ['~~a', '<del>a</del>'],
  ['see [the do', 'see <a null>the do</link>'],
  ['see [the docs](htt', 'see <a null>the docs</link>'],
  ['see [the docs](https://x.dev/a', 'see <a null>the docs</link>'],
  ['note [1', 'note [1'],
  ['a[i', 'a[i'],
  ['2 * 3', '2 * 3'],
  ['12*12? Say', '12*12? Say'],
  ['重**点', '重<strong>点</strong>'],
];

for (const [text, expected] of UNFINISHED) test(`inline, unfinished: ${text}`, () => assert.equal(open(text), expected));

test('inline: an unfinished text is drawn for every beginning, and never fails', () => {
  for (const [text] of [...INLINES, ...UNFINISHED]) {
    for (let end = 0; end <= text.length; end += 1) assert.equal(typeof open(text.slice(0, end)), 'string');
  }
});

test('inline: hostile texts cost what their length allows', () => {
  for (const text of ['*a '.repeat(3000), '**a*'.repeat(2000), '['.repeat(8000), '[a]('.repeat(2000), '`'.repeat(8000), '`a``b'.repeat(1600), 'http://'.repeat(1100), '_*~~'.repeat(2000)]) {
    assert.equal(typeof done(text), 'string');
    assert.equal(typeof open(text), 'string');
  }
});

test('safeHref: only addresses that a page may follow', () => {
  assert.equal(safeHref('https://x.dev'), 'https://x.dev/');
  assert.equal(safeHref('mailto:a@x.dev'), 'mailto:a@x.dev');
  for (const address of ['javascript:1', ' JaVaScRiPt:1', 'java\nscript:1', 'data:text/html,x', '//x.dev', 'vbscript:1', 'file:///etc', 'http://[']) assert.equal(safeHref(address), null, address);
});

test('safeCut: cuts at a space, never through a construct', () => {
  const text = `${'word '.repeat(1500)}**a bold part that goes on and on** `.padEnd(8192, 'x ');
  const cut = safeCut(text, 8192);
  assert.equal(text[cut - 1], ' ');
  const linked = `${'a '.repeat(4000)}[words of a link that are many](https://x.dev/abc) ${'b '.repeat(300)}`.slice(0, 8192);
  const at = safeCut(linked, 8192);
  assert.ok(!linked.slice(0, at).includes('[') || linked.slice(0, at).includes(')'));
});

test('safeCut: without a space cuts between characters', () => {
  const text = '😀'.repeat(4100);
  assert.equal(safeCut(`a${text}`, 8192) % 2, 1);
});
