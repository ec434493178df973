// Lines for the host's log. Outside a component they are kept for a test to look at.

let lines = [];
let write = (level, message) => lines.push([level, message]);

/** Where lines go, those of `console` included; the component sets it. */
export function setWriter(writer) {
  write = writer;
  const line = (level) => (...parts) => write(level, parts.map(shown).join(' '));
  globalThis.console = {
    debug: line('debug'),
    log: line('info'),
    info: line('info'),
    warn: line('warn'),
    error: line('error'),
  };
}

// Objects as JSON; counts of 64 bits, which JSON lacks, as numbers.
function shown(part) {
  if (typeof part === 'string') return part;
  if (part instanceof Error || typeof part !== 'object') return String(part);
  try {
    return JSON.stringify(part, (_, inner) => (typeof inner === 'bigint' ? Number(inner) : inner));
  } catch {
    return String(part);
  }
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
