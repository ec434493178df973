//! Assignment of values to buffers.

use super::program::{OperatorProgram, RowOperand, StepTarget};

impl OperatorProgram {
    /// Assigns one buffer to values that are needed at different times. No step writes a buffer that it reads.
    pub(super) fn assign_buffers(&mut self) {
        let last = self.last_uses();
        let mut places = vec![0; self.places];
        // The last step that needs each buffer's current value.
        let mut taken: Vec<usize> = Vec::new();
        for (at, step) in self.steps.iter().enumerate() {
            let StepTarget::Place(value) = step.out else {
                continue;
            };
            let free = taken.iter().position(|&until| until < at);
            let place = free.unwrap_or(taken.len());
            if place == taken.len() {
                taken.push(0);
            }
            taken[place] = last[value];
            places[value] = place;
        }
        let renamed = |operand| match operand {
            RowOperand::Buffer(value) => RowOperand::Buffer(places[value]),
            other => other,
        };
        for step in &mut self.steps {
            step.work = step.work.map_operands(renamed);
            if let StepTarget::Place(value) = step.out {
                step.out = StepTarget::Place(places[value]);
            }
        }
        for output in self.components.iter_mut().chain(&mut self.parameters) {
            *output = output.map_operands(renamed);
        }
        self.places = taken.len();
    }

    /// Returns the last step that needs each value; outputs are needed until the end.
    fn last_uses(&self) -> Vec<usize> {
        let mut last = vec![0; self.places];
        let mut note = |operand, at| {
            if let RowOperand::Buffer(value) = operand {
                last[value] = at;
            }
        };
        for (at, step) in self.steps.iter().enumerate() {
            step.work.operands().for_each(|operand| note(operand, at));
        }
        for output in self.components.iter().chain(&self.parameters) {
            output
                .operands()
                .for_each(|operand| note(operand, usize::MAX));
        }
        last
    }
}
