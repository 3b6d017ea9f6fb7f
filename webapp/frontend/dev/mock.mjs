// A stand-in for the server while working on the pages: `node dev/mock.mjs [PORT] [empty]` serves made-up jobs under
// /api/v1 and the built pages under /. `BELLROCK_URL=http://127.0.0.1:PORT npm run dev` uses it. Not part of the product.
import { createReadStream, existsSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";

const port = Number(process.argv[2] ?? 8499);
const isEmpty = process.argv[3] === "empty";
const maxPoints = Number(process.env.MOCK_POINTS ?? 5000);
const dist = new URL("../dist/", import.meta.url).pathname;
const started = Date.now();
const GIB = 1024 ** 3;
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };

const noise = (seed) => {
  const x = Math.sin(seed * 127.1 + 311.7) * 43758.5453;
  return x - Math.floor(x);
};
const PROGRAMS = ["patterns", "fio", "dd", "python3", "cp", "lammps", "wrf.exe", "gromacs"];
const MODES = ["N-N", "N-1", "N-M", "1-1", null];

function job(index) {
  const running = index === 0;
  const state = running ? "running" : index % 11 === 5 ? "failed" : "completed";
  const start = running ? started - 40_000 : started - index * 613_000;
  const runtime = running ? (Date.now() - start) / 1000 : 20 + noise(index) * 400;
  const nodes = [1, 1, 4, 1, 16][index % 5];
  const processes = nodes * [1, 8, 32][index % 3];
  const volume = (running ? runtime / 60 : 1) * noise(index + 7) * 40 * GIB;
  const program = PROGRAMS[index % PROGRAMS.length];
  return {
    job_id: `${4711 + 200 - index}`, cluster: "bell", user: ["ada", "grace", "linus"][index % 3], program,
    command: `${program} --size 4G --block 1M --output /scratch/run${index}/out.dat`, state,
    start_ns: start * 1e6, end_ns: running ? null : (start + runtime * 1000) * 1e6, exit_code: running ? null : state === "failed" ? 137 : 0,
    runtime_s: runtime, node_names: Array.from({ length: nodes }, (_, n) => `n${String(n + 1).padStart(3, "0")}`), nodes, processes,
    io_processes: Math.ceil(processes * 0.9), read_bytes: Math.round(volume * 0.4), write_bytes: Math.round(volume),
    read_ops: Math.round((volume * 0.4) / 65536), write_ops: Math.round(volume / 1048576), metadata_ops: Math.round(noise(index + 3) * 90_000),
    mdops_avg: noise(index) * 900, bandwidth_avg_read: volume / 50, bandwidth_avg_write: volume / 22, bandwidth_peak_read: volume / 30,
    bandwidth_peak_write: volume / 12, iops_avg: volume / 1e6, io_mode_read: MODES[(index + 4) % 5], io_mode_write: MODES[index % 5],
    files: Math.round(1 + noise(index) * 800), phases: 4,
  };
}
const LOSS = { node: "n002", lost: 42, lost_names: 3, lost_log_bytes: 0, spool_full_s: 75, folded: 18_211 };
const JOBS = isEmpty ? [] : Array.from({ length: 137 }, (_, index) => index);
const field = { start: "start_ns", runtime: "runtime_s" };

function page(rows, query, defaultSort) {
  const sort = query.get("sort") ?? defaultSort;
  const key = field[sort.replace("-", "")] ?? sort.replace("-", "");
  const value = (row) => (key === "bytes" ? row.read_bytes + row.write_bytes : row[key]);
  const sorted = [...rows].sort((a, b) => (value(a) > value(b) ? 1 : value(a) < value(b) ? -1 : 0) * (sort.startsWith("-") ? -1 : 1));
  const offset = Number(query.get("cursor") ?? 0);
  const limit = Number(query.get("limit") ?? 50);
  return { rows: sorted.slice(offset, offset + limit), total: rows.length, next_cursor: offset + limit < rows.length ? String(offset + limit) : null };
}

function series(one, query) {
  const from = Number(query.get("from_ns") ?? one.start_ns) / 1e9;
  const to = Number(query.get("to_ns") ?? one.end_ns ?? Date.now() * 1e6) / 1e9;
  const most = Math.min(maxPoints, maxPoints > 5000 ? maxPoints : Number(query.get("points") ?? 600));
  const step = [0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 60].find((s) => (to - from) / s <= most && (s >= 1 || to - from < 60)) ?? 60;
  const size = maxPoints > 5000 ? (to - from) / maxPoints : step;
  const first = Math.floor(from / size) * size;
  const bins = Math.min(most, Math.ceil((to - first) / size));
  const t = Array.from({ length: bins }, (_, index) => first + index * size);
  const scale = query.get("process") ? 1 / one.processes : 1;
  const rate = (top, seed, duty) => t.map((at) => {
    const since = at - one.start_ns / 1e9;
    if (since < -size || (one.end_ns && at > one.end_ns / 1e9)) return null;
    if (since > 12 && since < 15) return null;
    return since % 26 < duty ? scale * top * (0.55 + 0.45 * noise(Math.floor(at * 10) + seed)) : since % 26 < duty + 2 ? 0 : 0;
  });
  return {
    from_ns: first * 1e9, to_ns: (first + bins * size) * 1e9, step_s: size, t_ns: t.map((at) => at * 1e9),
    read_bytes_per_s: rate(1.3 * GIB, 1, 6), write_bytes_per_s: rate(2.1 * GIB, 2, 14), read_ops_per_s: rate(21_000, 3, 6),
    write_ops_per_s: rate(2200, 4, 14), metadata_ops_per_s: rate(480, 5, 3),
  };
}

function profile(one) {
  const ends = one.end_ns ?? Date.now() * 1e6;
  const phase_list = Array.from({ length: Math.ceil((ends - one.start_ns) / 26e9) }, (_, index) => ({
    start_ns: one.start_ns + index * 26e9, end_ns: Math.min(ends, one.start_ns + (index * 26 + 14) * 1e9), read_bytes: 7 * GIB,
    write_bytes: 28 * GIB, read_ops: 7 * 1024, write_ops: 28 * 1024, metadata_ops: 1400, mdops: 100, io_mode_read: "N-1", io_mode_write: "N-N", nodes: one.nodes,
  }));
  const op = (name, count, bytes, errors, busy_s, slowest_s) => ({ op: name, count, bytes, errors, busy_s, slowest_s });
  const slowest = (name, seconds, file) => ({
    op: name, seconds, file, node: "n001", process: "4711.8812", program: one.program, rank: 3, start_ns: one.start_ns + 3e9, end_ns: one.start_ns + 5e9,
  });
  return {
    ...one, phases: phase_list.length, errors: 12, mapped_bytes: 3 * 1024 ** 2, folded_ops: 18_211, io_nodes: one.nodes,
    slowest_op: slowest("write", 1.284, "/scratch/run/out.dat"), phase_list,
    latency: {
      read: { counts: [0.9, 0.09, 0.009, 0.001, 0, 0, 0, 0].map((share) => Math.round(share * one.read_ops)), slowest: slowest("read", 0.0081, "/scratch/run/in.dat") },
      write: { counts: [0, Math.max(one.write_ops - 941, 0), 900, 40, 0, 0, 1, 0], slowest: slowest("write", 1.284, "/scratch/run/out.dat") },
      metadata: { counts: [52_112, 4000, 134, 0, 0, 8, 0, 0], slowest: slowest("sync", 0.9, "/scratch/run/a/long/path/that/must/be/cut/checkpoint.0012.h5") },
    }, granularity: "process",
    unseen: [{ program: "postproc", file: "/opt/tools/postproc", reason: "static", processes: 2 }], unseen_programs: 1,
    operations: [op("read", one.read_ops, one.read_bytes, 0, 12.4, 0.2), op("write", one.write_ops, one.write_bytes, 0, 44.1, 1.284),
      op("open", 8123, 0, 12, 0.81, 0.013), op("close", 8111, 0, 0, 0.2, 0.001), op("stat", 40_112, 0, 0, 0.4, 0.0002), op("sync", 8, 0, 0, 2.1, 0.9)],
    request_sizes: [{ from_bytes: 0, to_bytes: 0, read_ops: 300, write_ops: 0, read_bytes: 0, write_bytes: 0 },
      ...[6, 9, 12, 13, 16, 20].map((p, index) => ({ from_bytes: 2 ** p, to_bytes: 2 ** (p + 1) - 1, read_ops: 1000 * (index + 1) ** 2, write_ops: 700 * (9 - index),
        read_bytes: 1000 * (index + 1) ** 2 * 2 ** p, write_bytes: 700 * (9 - index) * 2 ** p }))],
  };
}

const traffic = (seed, one, parts) => ({
  read_bytes: Math.round((one.read_bytes / parts) * (0.5 + noise(seed))), write_bytes: Math.round((one.write_bytes / parts) * (0.5 + noise(seed + 1))),
  read_ops: Math.round(one.read_ops / parts), write_ops: Math.round(one.write_ops / parts), metadata_ops: Math.round(one.metadata_ops / parts),
  errors: seed % 9 === 4 ? 3 : 0, first_ns: one.start_ns + seed * 1e7, last_ns: one.end_ns ?? Date.now() * 1e6,
});

function audit() {
  const flaw = (kind, severity, node, text, hint) => ({ kind, severity, node, boot: "5f3a9c01d2e4b687", text, hint });
  const boot = (node, index) => ({
    node, boot: `5f3a9c01d2e4b6${80 + index}`, state: index === 2 ? "silent" : "heard", seq: 8812 + index * 71, missing: index === 1 ? 3 : 0, gaps: [],
    duplicates: index * 40, dead_letters: 0, conflicts: 0, late: 0, lost: index === 1 ? 42 : 0, first_append_ns: started * 1e6, last_append_ns: (Date.now() - [900, 2400, 395_000][index]) * 1e6,
    clock_offset_s: [-0.2, 10_800, -2][index], told: index === 1 ? { lost: 42, spool_full_seconds: 75, folded: 18_211 } : {},
  });
  const flaws = [
    flaw("gap", "missing", "n002", "3 records never came: numbers 7012 to 7014", "the node's disk or the way here lost them; look at the agent's log for torn or damaged spool entries"),
    flaw("silent", "missing", "n003", "the agent has been silent for 6.6 minutes, and did not say that it ends", "look there with `systemctl status bellrock-agent`; what it has seen waits in its spool"),
    flaw("clock", "note", "n002", "the node's clock is 3.0 hours ahead of the server's", "see to it that both run NTP: `timedatectl`"),
  ];
  const boots = isEmpty ? [] : ["n001", "n002", "n003"].map(boot);
  return { now_ns: Date.now() * 1e6, since_ns: 0, complete: true, clean: isEmpty, flaws: isEmpty ? [] : flaws, flaws_total: isEmpty ? 0 : 3, boots, boots_total: boots.length, dead_letters: [], proof: null };
}

const COMPONENTS = isEmpty ? [] : ["fwd1", "fwd2", "oss1"].flatMap((node, index) => [
  ...["sda", "sdb"].map((instance) => ({ node, component: "block_device", instance, ago: index === 2 ? 900 : 2 })), { node, component: "node", instance: node, ago: 4 },
  ...(index === 2 ? [{ node, component: "lustre_ost", instance: "online1-OST0003", ago: 2 }, { node, component: "gluster_server", instance: "bricks_b1", ago: 2 }] : []),
]);

const SAID = [
  { severity: 4, origin: "kernel", program: "kernel", event: "lustre_failover", text: "Lustre: Failing over scratch-OST0004", count: 1 },
  { severity: 3, origin: "kernel", program: "kernel", event: "io_error", text: "blk_update_request: I/O error, dev sdb, sector 2048", count: 12 },
  { severity: 4, origin: "user", program: "<b>logger", event: null, text: "<script>alert(1)</script> said by anyone", count: 1 },
];

function messages(query) {
  const [from, to] = ["from_ns", "to_ns"].map((name) => Number(query.get(name)));
  const said = isEmpty ? [] : SAID.map((one, place) => ({ ...one, facility: "kern", log: "journal", start_ns: to - (place + 1) * (to - from) / 5, end_ns: to - (place + 0.9) * (to - from) / 5 }));
  const fits = said.filter(({ severity, event }) => severity <= Number(query.get("severity") ?? 7) && (!query.get("event") || event));
  return { node: query.get("node"), from_ns: from, to_ns: to, messages: fits, total: fits.length, is_whole: true, next_cursor: null };
}

function components(query) {
  const text = (query.get("search") ?? "").toLowerCase();
  const found = COMPONENTS.filter((one) => ["node", "component"].every((name) => !query.get(name) || one[name] === query.get(name)) && `${one.node} ${one.component} ${one.instance}`.includes(text));
  const kinds = {};
  for (const { component } of found) kinds[component] = (kinds[component] ?? 0) + 1;
  const of_node = {};
  for (const { node } of found) of_node[node] = (of_node[node] ?? 0) + 1;
  const rows = found.map(({ ago, ...one }) => ({ ...one, first_ns: (started - 3_600_000) * 1e6, last_ns: (Date.now() - ago * 1000) * 1e6 }));
  return { components: rows, total: rows.length, nodes: Object.keys(of_node).length, of_node, kinds, next_cursor: null };
}

function componentSeries(query) {
  const to = Number(query.get("to_ns")) / 1e9, from = Number(query.get("from_ns")) / 1e9;
  const step = [1, 5, 15, 60, 300, 3600, 6 * 3600, 48 * 3600].find((s) => (to - from) / s <= 300) ?? 48 * 3600;
  const t = Array.from({ length: Math.ceil((to - from) / step) }, (_, index) => Math.floor(from / step) * step + index * step);
  const wave = (top, seed) => t.map((at) => (at % Math.max(3600, 12 * step) < 300 ? null : top * (0.4 + 0.3 * Math.sin(at / 700 + seed) + 0.3 * noise(at + seed))));
  const counter = (name, unit, top, seed) => { const per_s = wave(top, seed); return { name, kind: "counter", unit, what: `What ${name} is.`, total: per_s.reduce((sum, one) => sum + (one ?? 0) * step, 0), per_s, min_per_s: per_s.map((one) => one && one * 0.6), max_per_s: per_s.map((one) => one && one * 1.5) }; };
  const mean = wave(6, 5);
  const buckets = [900, 400, 120, 9].map((top, index) => wave(top, index));
  return {
    node: query.get("node"), component: query.get("component"), instance: query.get("instance") ?? "", instance_what: "Device name.", from_ns: t[0] * 1e9,
    to_ns: (t[t.length - 1] + step) * 1e9, step_s: step, t_ns: t.map((at) => at * 1e9), last_ns: to * 1e9, resolution_s: to - from > 31 * 86_400 ? 3600 : to - from > 86_400 ? 60 : null, values_left_out: 0,
    values: [counter("read_bytes", "bytes", GIB, 1), counter("write_bytes", "bytes", 2 * GIB, 2), counter("busy_s", "s", 1, 3),
      { name: "queue_length", kind: "gauge", unit: "requests", what: "Requests in hand.", last: mean, mean, min: mean.map((one) => one && one / 2), max: mean.map((one) => one && one * 2) },
      { name: "read_wait", kind: "histogram", unit: "us", what: "Reads by how long they took.", bounds: [100, 1000, 10_000, null], totals: buckets.map((one) => one.reduce((sum, x) => sum + (x ?? 0) * step, 0)), per_s: buckets }],
  };
}

/** Every rank writes in turns, and some are slow. */
function heat(one, query) {
  const { t_ns, step_s, from_ns, to_ns } = series(one, { get: (name) => (name === "points" ? query.get("bins") : name === "process" ? null : query.get(name)) });
  const byRank = query.get("by") === "rank";
  const members = byRank ? one.processes : one.nodes;
  const each = Math.ceil(members / Number(query.get("rows") ?? 128));
  const rows = Array.from({ length: Math.ceil(members / each) }, (_, row) => {
    const cells = t_ns.map((at) => {
      const since = (at - one.start_ns) / 1e9;
      const late = row % 13 === 5 ? 5 : 0;
      return since >= late && since % 26 < 8 + late ? Math.round(GIB * step_s * noise(row * 31 + Math.floor(since))) : 0;
    });
    const name = (n) => (byRank ? String(n) : `n${String(n + 1).padStart(3, "0")}`);
    return { first: name(row * each), last: name(Math.min((row + 1) * each, members) - 1), members: Math.min(each, members - row * each), total: cells.reduce((sum, x) => sum + x, 0), cells };
  });
  return { by: query.get("by"), measure: query.get("measure"), from_ns, to_ns, step_s, t_ns, members, total: rows.reduce((sum, row) => sum + row.total, 0), is_stored: one.processes > 100, rows };
}

/** A span of a job, which opens, reads and writes in turns. */
const spanOf = (one, query) => [Number(query.get("from_ns") ?? one.start_ns), Number(query.get("to_ns") ?? one.end_ns ?? Date.now() * 1e6)];

function timeline(one, query) {
  const [from_ns, to_ns] = spanOf(one, query);
  const byFile = query.get("by") === "file";
  const total = byFile ? one.files : one.processes;
  const first = Number(query.get("first") ?? 0);
  const lanes = Array.from({ length: Math.max(Math.min(Number(query.get("lanes") ?? 32), total - first), 0) }, (_, n) => ({ name: byFile ? `/scratch/run/member${first + n}/restart.${first + n}.nc` : String(first + n), runs: 40 }));
  const marks = { lane: [], kind: [], op: [], file: [], start_ns: [], end_ns: [], count: [], bytes: [], runs: [] };
  lanes.forEach((_, lane) => {
    for (let at = one.start_ns; at < (one.end_ns ?? Date.now() * 1e6); at += 26e9) {
      for (const [kind, since, length] of [[2, 0, 0.02], [0, 0.5, 3 * noise(lane)], [1, 5, 2 + 9 * noise(lane * 7 + at / 1e9)], [2, 16, 0.02]]) {
        const start = at + since * 1e9;
        const mark = { lane, kind, op: kind, file: kind === 2 ? -2 : 0, start_ns: start, end_ns: start + length * 1e9, count: kind === 2 ? 3 : 400, bytes: kind === 2 ? 0 : 400 << 20, runs: kind === 2 ? 3 : 1 };
        if (start < to_ns && start + length * 1e9 > from_ns) for (const [name, value] of Object.entries(mark)) marks[name].push(value);
      }
    }
  });
  return { by: query.get("by"), from_ns, to_ns, first, lanes_total: total, joined_s: one.processes > 100 ? 0.05 : 0, runs: lanes.length * 40, lanes, ops: ["read", "write", "open"], kinds: ["read", "write", "metadata"], files: ["/scratch/<b>run"], marks };
}

/** A file that all ranks write block by block, each its own of every round, and read at the beginning; of large jobs a grid. */
function offsets(one, query) {
  const [from_ns, to_ns] = spanOf(one, query);
  const file = query.get("file") || "/scratch/project/climate/run-2025-11-21/shared.nc";
  const ranks = Math.min(one.processes, 32);
  const block = 4 << 20;
  const segments = { who: [], op: [], start_ns: [], end_ns: [], first: [], last: [], size: [], count: [], bytes: [] };
  const rounds = Math.floor(((one.end_ns ?? Date.now() * 1e6) - one.start_ns) / 26e9) + 1;
  for (let round = 0; round < rounds; round += 1) {
    for (let who = 0; who < ranks; who += 1) {
      const start = one.start_ns + round * 26e9 + 5e9 + noise(who + round) * 2e9;
      const first = (round * ranks + who) * block;
      const segment = { who, op: round === 0 && who % 2 ? 0 : 1, start_ns: start, end_ns: start + 7e9, first, last: first + block - 65536, size: 65536, count: 64, bytes: block };
      if (start < to_ns && start + 7e9 > from_ns) for (const [name, value] of Object.entries(segment)) segments[name].push(value);
    }
  }
  const is_grid = one.processes > 100;
  const cells = { op: [], bin: [], row: [], who: [], count: [] };
  if (is_grid) {
    segments.first.forEach((first, at) => {
      const cell = { op: segments.op[at], bin: Math.floor(((segments.start_ns[at] - from_ns) / (to_ns - from_ns)) * 180), row: Math.floor((first / (rounds * ranks * block)) * 100), who: at % 5 ? segments.who[at] : -1, count: 1 + (at % 40) };
      if (cell.bin >= 0 && cell.bin < 180) for (const [name, value] of Object.entries(cell)) cells[name].push(value);
    });
    for (const name of Object.keys(segments)) segments[name] = [];
  }
  const high = rounds * ranks * block;
  return { file, from_ns, to_ns, low: 0, high, runs: rounds * ranks, count: rounds * ranks * 64, bytes: high, unsure: one.state === "failed" ? 7 : 0, left_out: 0, ops: ["read", "write"], who: Array.from({ length: ranks }, (_, n) => String(n)), is_grid, segments,
    bin_s: is_grid ? (to_ns - from_ns) / 180e9 : 0, row_bytes: is_grid ? high / 100 : 0, cells };
}

/** For whom a target worked: a Lustre's clients and names of jobs, a brick's clients alone. */
function componentLoad(query) {
  const isLustre = query.get("component") === "lustre_ost";
  const by = (names, total = names.length) => ({ total, rows: names.map((name, n) => ({ name, members: 1 + (n % 3) * 40, read_bytes: Math.round((9 * GIB * noise(n)) / (n + 1)), write_bytes: Math.round((4 * GIB * noise(n + 5)) / (n + 1)),
    read_ops: isLustre ? 90_000 - n * 1300 : null, write_ops: isLustre ? 40_000 - n * 700 : null, metadata_ops: null })) });
  const clients = Array.from({ length: 50 }, (_, n) => (n % 9 === 8 ? `10.9.0.${n}@o2ib` : `n${String(n + 1).padStart(3, "0")}`));
  const isCounted = isLustre || query.get("component") === "gluster_server";
  return {
    from_ns: Number(query.get("from_ns")), to_ns: Number(query.get("to_ns")), resolution_s: null, by_class: isCounted ? by(["compute", "forwarding nodes", "login", "unknown"]) : null,
    by_group: isCounted ? by(["g1", "g2", "unknown"]) : null, by_client: isCounted ? by(clients, 4096) : null, by_user: isLustre ? by(["ada", "grace", "uid 4444", "<b>unknown"]) : null,
    by_job: isLustre ? by(JOBS.slice(0, 50).map((index) => job(index).job_id), 137) : null,
  };
}

/** A Lustre of many OSTs that read more than was asked for, and a file system of servers that tell little. */
function layers(one) {
  const end = one.end_ns ?? Date.now() * 1e6;
  const wholeS = (end - one.start_ns) / 1e9;
  const none = Object.fromEntries(["read_bytes", "write_bytes", "read_ops", "write_ops", "metadata_ops", "read_latency", "write_latency", "metadata_latency", "metadata", "queue_mean", "queue_max", "cache_hits", "cache_misses", "cache_discards"].map((name) => [name, null]));
  const latency = (mean_s, p95_s = null) => ({ mean_s, p95_s });
  const figures = (read, write, more = {}) => ({ ...none, read_bytes: Math.round(one.read_bytes * read), write_bytes: Math.round(one.write_bytes * write), read_ops: Math.round(one.read_ops * read / 16), write_ops: Math.round(one.write_ops * write), ...more });
  const served = (own, whole, how, other_jobs) => ({ figures: whole ?? own, own, how, other_jobs });
  const component = (node, kind, instance, target, figuresOf, more = {}) => ({ node, component: kind, instance, target, is_certain: true, is_beneath: kind === "block_device", jobs: figuresOf.other_jobs ? ["4905", "4<b>906"] : [], known_s: wholeS, ...figuresOf, ...more });
  const layer = (name, of, amplification, figuresOf, parts) => ({ layer: name, of, amplification, ...figuresOf, components: parts });
  const client = (share) => layer("client", null, { read: null, write: null }, served(figures(share, share, { metadata_ops: Math.round(one.metadata_ops * share), read_latency: latency(0.0021, 0.01), write_latency: latency(0.012, 0.1), metadata_latency: latency(0.0004, 0.001) }), null, "alone", 0), []);
  const bytes = (read, write) => ({ ...figures(read, write), read_ops: null, write_ops: null });
  const busy = { read_latency: latency(0.0017, 0.005), write_latency: latency(0.009), queue_mean: 6.4, queue_max: 88, cache_hits: 91_000, cache_misses: 20_100, cache_discards: 18_000 };
  const osts = Array.from({ length: 144 }, (_, n) => component(`oss${n >> 1}`, "ost", `online1-OST${n.toString(16).padStart(4, "0")}`, `OST${n.toString(16).padStart(4, "0")}`,
    n === 3 ? served(null, none, null, 2) : served(bytes((2.8 * noise(n)) / 72, (0.8 * noise(n + 9)) / 72), figures(0.2, 0.1, busy), "clients", n % 5), { is_certain: n % 7 !== 1, known_s: n === 3 ? 0 : n % 11 === 4 ? wholeS / 3 : wholeS }));
  const bricks = ["/bricks/b1", "/bricks/<i>b2</i>"].map((instance, n) => component(`fwd${n + 1}`, "gluster_server", instance, null, served(null, figures(2, 3, { metadata_ops: 1200, metadata_latency: latency(0.02) }), null, 1)));
  return {
    from_ns: one.start_ns, to_ns: end, resolution_s: null, has_topology: true, elsewhere: figures(0.01, 0.02, { metadata_ops: 12 }),
    file_systems: [
      { name: "online1", kind: "lustre", layers: [client(0.8),
        layer("forwarding", "client", { read: 3.52, write: 1.004 }, served(figures(2.81, 0.8, busy), null, "alone", 0), [component("fwd1", "lwfs_server", "fwd1", null, served(figures(2.81, 0.8, busy), null, "alone", 0))]),
        layer("storage", "forwarding", { read: 0.99, write: 2.01 }, served(bytes(2.78, 1.6), figures(9, 11, busy), "job_stats", 7), osts),
        layer("metadata", null, { read: null, write: null }, served(null, { ...none, metadata_ops: 4_112_000, metadata_latency: latency(0.0011, 0.002), queue_mean: 2, metadata: [{ name: "open", ops: 2_112_000, mean_s: 0.0013 }, { name: "close", ops: 1_999_000, mean_s: 0.0004 }, { name: "mk<b>dir", ops: 1000, mean_s: null }] }, null, 31), [component("mds0", "lustre_mdt", "online1-MDT0000", "MDT0000", served(null, { ...none, metadata_ops: 4_112_000, metadata_latency: latency(0.0011, 0.002), queue_mean: 2 }, null, 31))])] },
      { name: "work", kind: "gluster", layers: [client(0.2), layer("forwarding", "client", { read: null, write: null }, served(null, figures(4, 6, { metadata_ops: 2400, metadata_latency: latency(0.02) }), null, 1), bricks)] },
    ],
  };
}

function layerSeries(one, query) {
  const { from_ns, to_ns, step_s, t_ns, read_bytes_per_s, write_bytes_per_s, write_ops_per_s, metadata_ops_per_s } = series(one, query);
  const isMetadata = query.get("layer") === "metadata";
  return {
    from_ns, to_ns, resolution_s: null, step_s, t_ns, read_ops_per_s: null, write_ops_per_s: isMetadata ? null : write_ops_per_s, metadata_ops_per_s: isMetadata ? metadata_ops_per_s : null,
    read_bytes_per_s: isMetadata ? null : read_bytes_per_s.map((value) => value && value * 3.5), write_bytes_per_s: isMetadata ? null : write_bytes_per_s, queue: write_ops_per_s.map((value) => value && value / 100),
  };
}

/** Findings of several kinds and states; one of a node, one that lasts, with evidence of every form. */
const FINDINGS = JOBS.slice(0, 120).map((index) => {
  const one = job(index);
  const kind = ["metadata-storm", "small-io", "shared-file-writes", "component-slow"][index % 4];
  const ofNode = kind === "component-slow";
  return {
    id: 200 - index, kind, severity: ["critical", "info", "warning", "warning"][index % 4], begin_ns: one.start_ns, end_ns: ofNode && index < 4 ? null : (one.end_ns ?? one.start_ns + 30e9), times: index % 4 === 1 ? null : 1.5 + noise(index) * 20,
    is_reported: index % 9 !== 7, node: ofNode ? "oss3" : "", component: ofNode ? "lustre_ost" : "", instance: ofNode ? "work-OST0007" : "",
    jobs: ofNode ? [{ job: one.job_id, role: "victim" }, { job: null, role: "aggressor" }] : [{ job: one.job_id, role: "subject" }],
    cause: { "metadata-storm": "12,768 metadata operations a second in I/O phases: 51% open, 49% close", "small-io": "1,204,112 of 1,300,000 writes are smaller than 16,384 bytes", "shared-file-writes": "128 nodes write to one file",
      "component-slow": "served like work 4.2 times slower than its 143 peers, <b>with</b> no more of it" }[kind],
    cause_by: null, remedy: index % 12 === 8 ? "files were packed into one" : "", state: ["open", "open", "acknowledged", "closed"][Math.floor(index / 2) % 4], verdict: index % 8 === 6 ? "confirmed" : null,
    found_ns: one.start_ns + 60e9, seen_ns: one.start_ns + 90e9, changed_by: index % 8 === 6 ? "boss" : null, changed_ns: index % 8 === 6 ? one.start_ns + 900e9 : null, comments: index % 8 === 6 ? 1 : 0,
  };
});
const said = new Map();

function evidenceOf(one) {
  const of = { job: one.jobs[0].job, program: "wrf.exe" };
  if (one.kind === "metadata-storm") return { mdops: 12_768.4, metadata_ops: 830_000, by_operation: [{ operation: "open", count: 423_300, share: 0.51 }, { operation: "close", count: 406_700, share: 0.49 }], ...of, bounds: { mdops: 300, metadata_ops: 18_000 } };
  if (one.kind === "small-io") return { direction: "write", ops: 1_300_000, small_ops: 1_204_112, small_bytes: 77_063_168, ...of, bounds: { small_ops: 100_000, share: 0.5, request_bytes: 16_384 } };
  if (one.kind === "shared-file-writes") return { io_mode_write: "N-1", io_nodes: 128, write_bytes: 41 * GIB, bandwidth_avg_write: 1.2 * GIB, ...of, bounds: { io_nodes: 32, write_bytes: 200_000_000 } };
  return {
    read_latency_s: 0.0421, usual: { read_latency_s: 0.01, queue: { mean: 1.2, most: 9 } }, bounds: { read_latency_s: 0.02 }, series: Array.from({ length: 240 }, (_, n) => Number((0.01 + noise(n) / 20).toFixed(4))),
    peers: Array.from({ length: 143 }, (_, n) => ({ node: `oss${n >> 1}`, instance: `work-OST${n.toString(16).padStart(4, "0")}`, read_latency_s: 0.009 + noise(n) / 500, read_bytes: Math.round(noise(n) * 9 * GIB), other: n % 3 ? null : { runs: 4, seen: true } })),
    victims: [{ job: one.jobs[0].job, slower_times: 3.1 }, { job: null, slower_times: 2.2 }],
  };
}

/** A list by its filters, or one; `changes`: what somebody makes of it. */
function findings(parts, query, changes) {
  const one = FINDINGS.find(({ id }) => String(id) === parts[1]);
  if (parts[1] !== undefined && !one) return null;
  if (changes) {
    const { comment, ...rest } = changes;
    Object.assign(one, rest, { changed_by: "ada", changed_ns: Date.now() * 1e6 }, rest.cause !== undefined && { cause_by: "ada" }, rest.verdict === "" && { verdict: null });
    if (comment) said.set(one.id, [...(said.get(one.id) ?? []), { at_ns: Date.now() * 1e6, author: "ada", text: comment }]);
    return one;
  }
  const event = { id: 1, kind: "raid-rebuild", begin_ns: one?.begin_ns - 600e9, end_ns: null, node: "oss3", text: "disk 7 of <i>md4</i>", source: "log", author: null, told_ns: 0 };
  if (one) return { finding: one, evidence: evidenceOf(one), comments: said.get(one.id) ?? [], annotations: one.node ? [event] : [] };
  const state = query.get("state") ?? "";
  const least = ["info", "warning", "critical"].indexOf(query.get("severity") ?? "info");
  const hits = FINDINGS.filter((found) => (state === "any" || (state === "" ? found.state !== "closed" : found.state === state)) && ["info", "warning", "critical"].indexOf(found.severity) >= least
    && (query.get("reported") === "any" || found.is_reported) && found.kind.includes(query.get("kind") ?? "") && (!query.get("node") || found.node === query.get("node"))
    && (!query.get("job") || found.jobs.some((of) => of.job === query.get("job"))));
  const { rows, ...rest } = page(hits, query, "-begin_ns");
  return { findings: rows, ...rest };
}

function answer(path, query, changes) {
  const parts = path.split("/").slice(3).map(decodeURIComponent);
  if (parts[0] === "session") return { name: "ada", role: "admin", via: "owner", expires_ns: null, version: "0.1.0" };
  if (parts[0] === "findings") return findings(parts, query, changes);
  if (parts[0] === "audit") return audit();
  if (parts[0] === "messages") return messages(query);
  if (parts[0] === "components") return parts[1] === "series" ? componentSeries(query) : parts[1] === "load" ? componentLoad(query) : components(query);
  if (parts[0] === "status") {
    const agents = ["n001", "n002", "n003"].map((node, index) => ({
      node, seq: 8812 + index * 71, missing: 0, last_seen_ns: (Date.now() - [900, 2400, 95_000][index]) * 1e6,
      values: { seen: 19_991_231, merged: 19_982_000, sent: 9231, acknowledged: 9231, lost: index === 1 ? 42 : 0, lost_runs: 0, folded: 18_211, spool_bytes: 123_456 },
    }));
    return { version: "0.1.0", started_ns: (started - 3_600_000) * 1e6, records: { run: 812_331, sample: 4412, job: 274 }, dead_letters: 0,
      agents: isEmpty ? [] : agents, losses: isEmpty ? [] : [LOSS], ingest: { connections: 3, events: 817_017 } };
  }
  const all = JOBS.map(job);
  if (parts.length === 1) {
    const text = (query.get("search") ?? "").toLowerCase();
    const state = query.get("state");
    const hits = all.filter((one) => `${one.job_id} ${one.user} ${one.program}`.includes(text) && (!state || one.state === state));
    const { rows, ...rest } = page(hits, query, "-start");
    return { jobs: rows, ...rest };
  }
  const one = all.find((candidate) => candidate.job_id === parts[1]);
  if (!one) return null;
  if (parts[2] === undefined) return { job: one, profile: profile(one), losses: one.node_names.includes("n002") && one.state === "failed" ? [LOSS] : [], groups_away: [] };
  if (parts[2] === "series") return series(one, query);
  if (parts[2] === "heat") return heat(one, query);
  if (parts[2] === "timeline") return timeline(one, query);
  if (parts[2] === "offsets") return offsets(one, query);
  if (parts[2] === "layers" && one.state === "failed") return { from_ns: one.start_ns, to_ns: one.end_ns, resolution_s: null, has_topology: false, file_systems: [], elsewhere: null };
  if (parts[2] === "layers") return parts[3] === "series" ? layerSeries(one, query) : layers(one);
  if (parts[2] === "nodes") {
    const { rows: nodes, ...rest } = page(one.node_names.map((node, n) => ({ node, processes: one.processes / one.nodes, files: 9, ...traffic(n, one, one.nodes) })), query, "-bytes");
    return { nodes, ...rest };
  }
  if (parts[2] === "processes") {
    const rows = Array.from({ length: one.processes }, (_, n) => ({ node: one.node_names[n % one.nodes], process: `${22_000 + n}.${991_000 + n}`,
      rank: one.program === "lammps" ? n : null, rank_inferred: false, program: one.program, files: 4, ...traffic(n, one, one.processes) }));
    const { rows: processes, ...rest } = page(rows, query, "-bytes");
    return { processes, ...rest };
  }
  const names = Array.from({ length: one.files }, (_, n) => ({ file: `/scratch/project/climate/run-2025-11-21/member${n % 7}/restart/<b>chunk</b>.${String(n).padStart(5, "0")}.nc`,
    file_id: n.toString(16), processes: 1 + (n % 4), mapped_bytes: n % 5 === 0 ? 1048576 : 0, ...traffic(n, one, one.files) }));
  const { rows: files, ...rest } = page(names.filter((row) => row.file.includes(query.get("search") ?? "")), query, "-bytes");
  return { files, ...rest };
}

createServer(async (request, response) => {
  const url = new URL(request.url, "http://localhost");
  response.setHeader("content-security-policy", "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:");
  if (url.pathname.startsWith("/api/")) {
    const body = answer(url.pathname, url.searchParams, request.method === "PATCH" ? JSON.parse((await request.toArray()).join("")) : null);
    response.writeHead(body ? 200 : 404, { "content-type": "application/json" });
    response.end(JSON.stringify(body ?? { error: { code: "no_such_job", message: `no job at ${url.pathname}`, hint: "List them: bellrock jobs" } }));
    return;
  }
  const wanted = join(dist, normalize(url.pathname));
  const file = existsSync(wanted) && statSync(wanted).isFile() ? wanted : join(dist, "index.html");
  response.writeHead(200, { "content-type": TYPES[extname(file)] ?? "application/octet-stream" });
  createReadStream(file).pipe(response);
}).listen(port, "127.0.0.1", () => console.log(`http://127.0.0.1:${port}/`));
