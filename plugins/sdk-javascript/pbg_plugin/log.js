// Lines for the host's log. Outside a component they are kept, so that a test can take them.

let lines = [];
let write = (level, message) => lines.push([level, message]);

/** Sets the function that writes lines, including those of `console`; called by the component. */
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

// Formats objects as JSON, with counts of 64 bits, which JSON lacks, as numbers.
function shown(part) {
  if (typeof part === 'string') return part;
  if (part instanceof Error || typeof part !== 'object') return String(part);
  try {
    return JSON.stringify(part, (_, inner) => (typeof inner === 'bigint' ? Number(inner) : inner));
  } catch {
    return String(part);
  }
}

/** Returns the [level, line] pairs since the last call; only outside the sandbox. */
export function take() {
  const taken = lines;
  lines = [];
  return taken;
}

/** Writes one line for the plugin's author. */
export const debug = (message) => write('debug', String(message));
/** Writes one line for the user. */
export const info = (message) => write('info', String(message));
/** Writes one line about something unexpected, after which training goes on. */
export const warn = (message) => write('warn', String(message));
/** Writes one line that explains the fault that follows. */
export const error = (message) => write('error', String(message));
