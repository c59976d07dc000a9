// stompjs in Node and in a page of headless Chromium: node cases.js ws://HOST:PORT/ws NAME [CASE]

import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import * as Stomp from "@stomp/stompjs";
import { WebSocket } from "ws";
import { talk } from "./session.js";

const [url, name, chosen] = process.argv.slice(2);
const SECONDS_MAX = 60;
const COLOR = "r:e\\d\nx"; // stompjs escapes on 1.2 only.

const FILES = {
  "/session.js": () => ["text/javascript", readFileSync(new URL("./session.js", import.meta.url))],
  "/stomp.js": () => [
    "text/javascript",
    readFileSync(new URL("./node_modules/@stomp/stompjs/bundles/stomp.umd.min.js", import.meta.url)),
  ],
  "/": () => ["text/html", "<!doctype html><title>stompjs</title><script src=/stomp.js></script>"],
};

function serve() {
  const server = createServer((request, response) => {
    const file = FILES[request.url];
    response.writeHead(file ? 200 : 404, file ? { "content-type": file()[0] } : {});
    response.end(file ? file()[1] : "");
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
}

async function withPage(work) {
  const { default: packed } = await import("@sparticuz/chromium");
  const { chromium } = await import("playwright-core");
  const browser = await chromium.launch({ executablePath: await packed.executablePath(), args: packed.args });
  const server = await serve();
  try {
    return await work(await browser.newPage(), server.address().port);
  } finally {
    await browser.close();
    server.close();
  }
}

const CASES = {
  "node.session": () =>
    talk(Stomp, url, name + "-node", COLOR, {
      webSocketFactory: () => new WebSocket(url, ["v12.stomp", "v11.stomp", "v10.stomp"]),
    }),
  "node.older": async () => {
    const versions = new Stomp.Versions(["1.1"]);
    return talk(Stomp, url, name + "-older", "red", {
      stompVersions: versions,
      webSocketFactory: () => new WebSocket(url, versions.protocolVersions()),
    });
  },
  "browser.session": () =>
    withPage(async (page, port) => {
      await page.goto(`http://127.0.0.1:${port}/`);
      return page.evaluate(
        async ([url, name, color]) => (await import("/session.js")).talk(window.StompJs, url, name, color, {}),
        [url, name + "-page", COLOR],
      );
    }),
  "browser.otherSite": () =>
    withPage(async (page) => {
      await page.route("http://elsewhere.example/", (route) => {
        route.fulfill({ contentType: "text/html", body: "<title>another site</title>" });
      });
      await page.goto("http://elsewhere.example/");
      return page.evaluate(
        (url) =>
          new Promise((resolve) => {
            const socket = new WebSocket(url, ["v12.stomp"]);
            socket.onopen = () => resolve({ opened: true });
            socket.onclose = (event) => resolve({ opened: false, code: event.code });
          }),
        url,
      );
    }),
};

for (const [label, run] of Object.entries(CASES)) {
  if (chosen && chosen !== label) continue;
  const late = new Promise((_, reject) => {
    setTimeout(() => reject(new Error(`not within ${SECONDS_MAX} s`)), SECONDS_MAX * 1000).unref();
  });
  try {
    console.log(JSON.stringify({ case: label, saw: await Promise.race([run(), late]) }));
  } catch (error) {
    console.log(JSON.stringify({ case: label, failed: String(error && error.stack) }));
  }
}
process.exit(0);
