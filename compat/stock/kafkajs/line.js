// The line protocol of compat/README.md, for programs that are written in JavaScript.

import { createInterface } from "node:readline";

const RESET_TIMEOUT_MS = 5_000;

// An error that a library hands out as a value, or the program's own.
export class Refused extends Error {
  constructor(code, text) {
    super(text ?? String(code));
    this.code = code;
  }
}

// Answers one line after the other until there are no more. Each command is a method of the
// program, which is given all of the options.
export async function run(program) {
  const answers = process.stdout.write.bind(process.stdout);
  process.stdout.write = process.stderr.write.bind(process.stderr); // what a library prints is no answer
  for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
    const command = JSON.parse(line);
    answers(JSON.stringify({ id: command.id, ...(await answered(program, command)) }) + "\n");
  }
  await program.reset();
  process.exit(0);
}

async function answered(program, command) {
  try {
    if (!program.commands.includes(command.do)) throw new Refused("UNSUPPORTED", command.do);
    return { ok: (await program[command.do](command)) ?? {} };
  } catch (error) {
    console.error(command.do, error);
    return { error: program.told(error) };
  }
}

// Waits for each of the promises, but not for long.
export async function soon(promises) {
  const enough = new Promise((resolve) => setTimeout(resolve, RESET_TIMEOUT_MS).unref());
  await Promise.race([Promise.allSettled(promises), enough]);
}

export function octets(text) {
  return text === null ? null : Buffer.from(text, "base64");
}

export function text(found) {
  return found === null || found === undefined ? null : Buffer.from(found).toString("base64");
}

export function sleep(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
