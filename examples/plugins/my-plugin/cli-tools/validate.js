#!/usr/bin/env node
const fs = require('fs');

// Read JSON from stdin
let input = '';
process.stdin.on('data', chunk => input += chunk);
process.stdin.on('end', () => {
  const params = JSON.parse(input);

  // Do validation
  const content = fs.readFileSync(params.file, 'utf8');
  const isValid = content.includes('TODO') === false;

  // Return result
  console.log(JSON.stringify({
    valid: isValid,
    issues: isValid ? [] : ['Contains TODO comments']
  }));
});
