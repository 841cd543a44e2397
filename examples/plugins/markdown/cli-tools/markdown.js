#!/usr/bin/env node
// One program for two tools: the manifest's "args" says which. No package is needed.
const fs = require('fs');
const path = require('path');

// The lines that are no code, with their numbers.
function* prose(text) {
  let fence = '';
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    const mark = (line.match(/^ {0,3}(`{3,}|~{3,})/) || [])[1];
    if (fence) {
      if (mark && mark[0] === fence[0] && mark.length >= fence.length) fence = '';
    } else if (mark) {
      fence = mark;
    } else {
      yield [index + 1, line];
    }
  }
}

function outline({ file, depth }) {
  const headings = [];
  for (const [line, text] of prose(fs.readFileSync(file, 'utf8'))) {
    const found = text.match(/^ {0,3}(#{1,6})\s+(.*?)\s*#*$/);
    if (found && found[1].length <= depth) headings.push({ level: found[1].length, text: found[2], line });
  }
  return { headings };
}

function brokenLinks({ file }) {
  let checked = 0;
  const broken = [];
  for (const [line, text] of prose(fs.readFileSync(file, 'utf8'))) {
    for (const [, target] of text.matchAll(/\]\(<?([^)\s>]+)>?[^)]*\)/g)) {
      if (/^[a-z][a-z0-9+.-]*:|^#/i.test(target)) continue; // an address, or a place in this file
      checked += 1;
      const place = path.resolve(path.dirname(file), decodeURI(target.split('#')[0]));
      if (!fs.existsSync(place)) broken.push({ target, line });
    }
  }
  return { checked, broken };
}

const tools = { outline, 'broken-links': brokenLinks };

try {
  const given = JSON.parse(fs.readFileSync(0, 'utf8'));
  console.log(JSON.stringify(tools[process.argv[2]](given)));
} catch (error) {
  const code = error.code === 'ENOENT' ? 'not_found' : 'failed';
  console.log(JSON.stringify({ error: { code, message: error.message } }));
}
