// Who a plugin is and which parameters it takes.

/**
 * The parameters of a plugin; the host checks a configuration against them before the plugin sees
 * a value. Bounds are included and may be left out.
 */
export const parameter = {
  /** True or false. */
  boolean: (name, initial, doc) => ({ name, doc, type: 'boolean', initial }),
  /** A whole number. */
  integer: (name, initial, doc, { minimum, maximum } = {}) =>
    ({ name, doc, type: 'integer', initial, minimum, maximum }),
  /** A finite number. */
  number: (name, initial, doc, { minimum, maximum } = {}) =>
    ({ name, doc, type: 'number', initial, minimum, maximum }),
  /** Any text. */
  text: (name, initial, doc) => ({ name, doc, type: 'text', initial }),
  /** One of several words; the first is the default. */
  choice: (name, options, doc) => ({ name, doc, type: 'choice', initial: options[0], options }),
};

/** What every kind of strategy has. */
export class Strategy {
  /** Who this is: `{ name, version, summary, parameters }`. */
  static metadata() {
    throw new Error('metadata() is missing');
  }

  /** Takes an object with every declared parameter, already checked. */
  configure(_parameters) {}
}

/** The parameters that a plugin gets where a configuration sets nothing. */
export function defaults(plugin) {
  const declared = plugin.metadata().parameters ?? [];
  return Object.fromEntries(declared.map((p) => [p.name, p.initial]));
}
