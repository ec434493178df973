// Lines for the host's log. Outside a component they are kept for a test to look at.

let lines = [];
let write = (level, message) => lines.push([level, message]);

/** Where lines go; the component sets it. */
export function setWriter(writer) {
  write = writer;
}

/** The [level, line] pairs since the last call; only outside the sandbox. */
export function take() {
  const taken = lines;
  lines = [];
  return taken;
}

/** One line for the plugin's author. */
export const debug = (message) => write('debug', String(message));
/** One line for whoever trains. */
export const info = (message) => write('info', String(message));
/** Something is odd, and training goes on. */
export const warn = (message) => write('warn', String(message));
/** Explains the fault that follows. */
export const error = (message) => write('error', String(message));
