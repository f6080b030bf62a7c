# node: worker_threads, execSync, spawn, fs.watch, a unix socket, the test runner
cat >main.test.js <<'END'
const test = require('node:test');
const assert = require('node:assert');
const fs = require('fs');
const net = require('net');
const { execSync, fork, spawn } = require('child_process');
const { Worker } = require('worker_threads');
const { once } = require('events');

test('worker_threads', async () => {
    const worker = new Worker('require("worker_threads").parentPort.postMessage(6 * 7)', { eval: true });
    assert.deepStrictEqual(await once(worker, 'message'), [42]);
});
test('execSync', () => assert.strictEqual(execSync('echo $((6 * 7))').toString(), '42\n'));
test('spawn', async () => {
    const child = spawn('sh', ['-c', 'exit 3']);
    assert.strictEqual((await once(child, 'exit'))[0], 3);
});
test('watch', async () => {
    const watcher = fs.watch('.');
    const changed = once(watcher, 'change');
    fs.writeFileSync('watched', 'x');
    await changed;
    watcher.close();
});
test('unix socket', async () => {
    const server = net.createServer(socket => socket.end('hello')).listen('socket');
    const client = net.connect('socket').setEncoding('utf8');
    assert.deepStrictEqual(await once(client, 'data'), ['hello']);
    server.close();
});
test('wasm', async () => {
    const bytes = new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 127, 3, 2, 1, 0, 7, 5, 1, 1, 102, 0, 0, 10, 6, 1, 4, 0, 65, 42, 11]);
    const { instance } = await WebAssembly.instantiate(bytes);
    assert.strictEqual(instance.exports.f(), 42);
});
END
out=$(node --test main.test.js)
has "$out" '# pass 6'
has "$out" '# fail 0'
