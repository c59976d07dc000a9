// What a program with stompjs does, whichever WebSocket it runs on. Loaded by Node and by the page in the browser.

export async function talk(Stomp, url, name, color, options) {
  const client = new Stomp.Client({
    brokerURL: url,
    connectHeaders: { login: "guest", passcode: "guest" },
    heartbeatOutgoing: 1000,
    heartbeatIncoming: 1000,
    reconnectDelay: 0,
    ...options,
  });
  const failed = new Promise((_, reject) => {
    client.onStompError = (frame) => reject(new Error(frame.headers.message + ": " + frame.body));
    client.onWebSocketError = () => reject(new Error("the WebSocket failed"));
  });
  const connected = new Promise((resolve) => (client.onConnect = resolve));
  client.activate();
  const hello = await Promise.race([connected, failed]);
  const saw = { version: client.connectedVersion, heartBeat: hello.headers["heart-beat"] };

  const messages = [];
  let wake = () => {};
  const next = async () => {
    while (!messages.length) await Promise.race([new Promise((resolve) => (wake = resolve)), failed]);
    return messages.shift();
  };
  const receipt = (id) => Promise.race([new Promise((resolve) => client.watchForReceipt(id, resolve)), failed]);

  client.subscribe(
    "/queue/" + name,
    (message) => {
      messages.push(message);
      wake();
    },
    { id: "s", ack: "client-individual", "prefetch-count": "1" },
  );
  const confirmed = receipt("r1");
  client.publish({
    destination: "/queue/" + name,
    body: "häl\0lo ☃",
    headers: { color, receipt: "r1", persistent: "true" },
  });
  await confirmed;
  const first = await next();
  saw.first = { body: first.body, color: first.headers.color, destination: first.headers.destination };
  first.nack();
  const again = await next();
  saw.redelivered = again.headers.redelivered;
  again.ack();

  client.publish({ destination: "/queue/" + name, binaryBody: new Uint8Array([0, 1, 255, 254]) });
  const binary = await next();
  saw.binary = Array.from(binary.binaryBody);
  binary.ack();

  const transaction = client.begin();
  for (const body of ["one", "two"]) {
    const headers = { transaction: transaction.id };
    client.publish({ destination: "/queue/" + name, body, headers });
  }
  transaction.commit();
  saw.committed = [];
  for (let count = 0; count < 2; count++) {
    const message = await next();
    saw.committed.push(message.body);
    message.ack();
  }

  const large = "x".repeat(300000);
  client.publish({ destination: "/queue/" + name, body: large });
  const whole = await next();
  saw.large = whole.body === large;
  whole.ack();

  await new Promise((resolve) => setTimeout(resolve, 2600)); // Heart-beats keep the connection.
  saw.alive = client.connected;
  const disconnected = new Promise((resolve) => (client.onDisconnect = resolve));
  const closed = new Promise((resolve) => (client.onWebSocketClose = resolve));
  await client.deactivate();
  await disconnected; // The receipt of DISCONNECT.
  saw.closeCode = (await closed).code;
  return saw;
}
