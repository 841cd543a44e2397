// The TypeScript client: lists and calls tools of a server, and prints what it got as JSON.
// node client.mjs NODE_MODULES MODE COMMAND ARGUMENT…
import { pathToFileURL } from "node:url";

const [modules, mode, command, ...args] = process.argv.slice(2);
const place = (file) => pathToFileURL(`${modules}/@modelcontextprotocol/client/dist/${file}`).href;
const { Client } = await import(place("index.mjs"));
const { StdioClientTransport } = await import(place("stdio.mjs"));

const client = new Client(
  { name: "test", version: "1.0.0" },
  { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode } },
);
const questions = [];
client.setRequestHandler("elicitation/create", async (request) => {
  questions.push(request.params.message);
  return { action: "accept", content: { allow: true } };
});
await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: "ignore" }));
const { tools } = await client.listTools();
const progress = [];
const call = (name, given, options) => client.callTool({ name, arguments: given }, options);
const answers = {
  add: await call("add", { a: 2 }),
  wrong: await call("add", { a: "x" }),
  written: await call("file_write", { path: `typescript-${mode}.txt`, content: "x" }),
  worked: await call("work", {}, { onprogress: (one) => progress.push(one.progress) }),
};
let unknown = null;
try {
  await call("nope", {});
} catch (error) {
  unknown = error.code;
}
await client.close();
console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), answers, questions, progress, unknown }));
