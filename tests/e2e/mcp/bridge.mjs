// Serves a stdio MCP server over streamable HTTP, for a suite that speaks nothing else. Both ends are the official SDK's
// transports; messages pass as they are.
//
//     node bridge.mjs NODE_MODULES COMMAND ARG…
//
// prints the URL. Each HTTP session has a server process of its own.
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { pathToFileURL } from "node:url";

const [modules, command, ...args] = process.argv.slice(2);
const sdk = (path) => import(pathToFileURL(`${modules}/@modelcontextprotocol/sdk/dist/esm/${path}`));
const { StdioClientTransport } = await sdk("client/stdio.js");
const { StreamableHTTPServerTransport } = await sdk("server/streamableHttp.js");

const sessions = new Map();

async function open() {
  const http = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => sessions.set(id, http),
    enableDnsRebindingProtection: true,
    allowedHosts: [`127.0.0.1:${server.address().port}`, `localhost:${server.address().port}`],
  });
  const stdio = new StdioClientTransport({ command, args, env: process.env, stderr: "inherit" });
  // Which request a progress notification belongs to: it goes out on that one's stream.
  const progress = new Map();
  http.onmessage = (message) => {
    const token = message.params?._meta?.progressToken;
    if (token !== undefined) progress.set(token, message.id);
    stdio.send(message);
  };
  stdio.onmessage = (message) => {
    const relatedRequestId = progress.get(message.params?.progressToken);
    http.send(message, relatedRequestId === undefined ? undefined : { relatedRequestId });
  };
  http.onclose = () => stdio.close();
  await stdio.start();
  await http.start();
  return http;
}

const server = createServer(async (request, response) => {
  try {
    const http = sessions.get(request.headers["mcp-session-id"]) ?? (await open());
    await http.handleRequest(request, response);
  } catch (error) {
    console.error(error);
    if (!response.headersSent) response.writeHead(500).end();
  }
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/mcp`));
