// Name, version and parameters of a plugin.

/**
 * Functions that declare parameters. The host checks values against the declarations before the plugin sees
 * them. Bounds are included and optional.
 */
export const parameter = {
  /** Declares a boolean. */
  boolean: (name, initial, doc) => ({ name, doc, type: 'boolean', initial }),
  /** Declares a whole number. */
  integer: (name, initial, doc, { minimum, maximum } = {}) =>
    ({ name, doc, type: 'integer', initial, minimum, maximum }),
  /** Declares a finite number. */
  number: (name, initial, doc, { minimum, maximum } = {}) =>
    ({ name, doc, type: 'number', initial, minimum, maximum }),
  /** Declares a text. */
  text: (name, initial, doc) => ({ name, doc, type: 'text', initial }),
  /** Declares a choice of options; the first is the default. */
  choice: (name, options, doc) => ({ name, doc, type: 'choice', initial: options[0], options }),
};

/** Base class of every kind of strategy. */
export class Strategy {
  /** Returns the plugin's metadata: `{ name, version, summary, parameters }`. */
  static metadata() {
    throw new Error('metadata() is missing');
  }

  /** Receives an object with every declared parameter, already checked. */
  configure(_parameters) {}
}

/** Returns the parameters that a plugin gets if the configuration sets none. */
export function defaults(plugin) {
  const declared = plugin.metadata().parameters ?? [];
  return Object.fromEntries(declared.map((p) => [p.name, p.initial]));
}
