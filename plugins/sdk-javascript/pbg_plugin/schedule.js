// Learning rate schedules: factors of the learning rates.

import { Strategy } from './metadata.js';

/** Position of a pass in a schedule. Epochs are counted from the beginning of the run. */
export class Position {
  /**
   * `epoch` is the number of epochs until the middle of the pass, from `start` to `end`; the schedule begins after `start`
   * epochs, those of the warm-up, and ends after `end`.
   */
  constructor({ epoch, start = 0, end }) {
    Object.assign(this, { epoch, start, end });
  }

  /** Number of epochs since the beginning of the schedule. */
  get elapsed() {
    return this.epoch - this.start;
  }

  /** Number of epochs from the beginning of the schedule to its end. */
  get length() {
    return this.end - this.start;
  }

  /** Share of the schedule that has passed, from 0 to 1. */
  get share() {
    return this.epoch < this.end ? this.elapsed / this.length : 1;
  }
}

/** Decides by which factor the learning rates are multiplied in each pass of a run. */
export class RateSchedule extends Strategy {
  /** Returns the factor, from 0 to 1000; 1 stands for the rates of the configuration. */
  factor(_position) {
    throw new Error('factor() is missing');
  }
}
