//! Results of the SDKs in each language, compared with the host and the SDK in Rust.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Workplace, finish};
use crate::tools::without;

/// Swaps and loads of the row-by-row plan: published figures for grids with these partitions and buffers, and those of
/// two entity types with one partition in the buffer, an empty bucket and a side that stays in memory.
const EXPECTED: &str = "60 252 37 205 136\n2 1 2097152\n0 4\n";

const JAVASCRIPT: &str = "
import { Pass } from './index.js';
const swaps = [[8, 2], [16, 2], [8, 4], [16, 4], [16, 8]].map(([partitions, buffer]) => {
  const pass = Object.assign(Pass.uniform(partitions, partitions), { bufferPartitions: buffer });
  return pass.traffic(pass.grid()).swaps;
});
console.log(swaps.join(' '));
const pass = Object.assign(Pass.uniform(1, 3), { lhsBytes: BigUint64Array.of(0n), residentRhs: [2] });
const { loads, swaps: evicted, bytes } = pass.traffic(pass.grid());
console.log(`${loads} ${evicted} ${bytes}`);
console.log(`${pass.needs({ lhs: 0, rhs: 1 }).length - 1} ${pass.partitions()}`);
";

const PYTHON: &str = "
from pbg_plugin import Bucket, Pass
def swaps(partitions, room):
    grid_pass = Pass.uniform(partitions, partitions)
    grid_pass.buffer_partitions = room
    return grid_pass.traffic(grid_pass.grid()).swaps
print(*(swaps(p, c) for p, c in [(8, 2), (16, 2), (8, 4), (16, 4), (16, 8)]))
grid_pass = Pass.uniform(1, 3)
grid_pass.lhs_bytes, grid_pass.resident = [0], {('rhs', 2)}
print(*grid_pass.traffic(grid_pass.grid()))
print(len(grid_pass.needs(Bucket(0, 1))) - 1, grid_pass.partitions())
";

/// Operators in two languages: one that uses most functions of formulas, one of both sides with sums and 8 components,
/// and one with a reduction that does not exist.
const OPERATOR_IN_JAVASCRIPT: &str = "
import { TracedOperator } from './index.js';
import { apply, applyLhs } from './testing.js';
class Mine extends TracedOperator {
  build(x) {
    const [re, im] = x.components(2);
    const [a, b] = [x.parameter('a', 'angle'), x.parameter('b', 0.1)];
    const gate = a.sin().less(im).select(re.abs().sqrt(), b.cos().pow(2));
    const low = im.maximum(a).minimum(b.softplus());
    return [gate.sub(b.neg().exp()).clamp(-0.5, x.constant(0.7)), low.div(re.sigmoid().add(1))];
  }
}
const made = apply(new Mine(), [0.5, -2, 0.3, 4], { a: [0.1, -3], b: [0.2, 3] });
console.log(made.map((value) => value.toFixed(6)).join(' '));
class Both extends TracedOperator {
  build(x) {
    const p = x.parameter('p', 1);
    return x.components(8).map((c) => c.sub(p.mul(p.dot(c)).div(p.dot(p))));
  }
  buildLhs(x) {
    return x.components(8).map((c) => c.mul(x.parameter('q', 1)).add(x.constant(1).sum()));
  }
}
const given = { p: [1, 3], q: [2, -1] };
const embedding = Array.from({ length: 16 }, (_, at) => at);
for (const made of [apply(new Both(), embedding, given), applyLhs(new Both(), embedding, given)]) {
  console.log(made.map((value) => value.toFixed(3)).join(' '));
}
class Mean extends TracedOperator {
  build(x) {
    return [x.component(0).mean()];
  }
}
class Nothing extends Mean {
  build(x) {
    return [x.component(0).mul(x.parameter('a', 'one'))];
  }
  buildLhs(_x) {
    return [];
  }
}
try {
  apply(new Nothing(), [1], { a: [1] });
} catch (error) {
  console.log(error.message.includes('returned no outputs') ? 'no outputs' : error);
}
try {
  apply(new Mean(), [1], {});
} catch (error) {
  console.log(error instanceof TypeError && error.message.includes('mix the elements') ? 'no mean' : error);
}
";
const OPERATOR_IN_PYTHON: &str = "
from pbg_plugin import TracedOperator, cos, sin
from pbg_plugin.testing import apply, apply_lhs
class Mine(TracedOperator):
    def build(self, x):
        re, im = x.components(2)
        a, b = x.parameter('a', 'angle'), x.parameter('b', 0.1)
        gate = (sin(a) < im).select(abs(re).sqrt(), cos(b) ** 2)
        low = im.maximum(a).minimum(b.softplus())
        return [(gate - (-b).exp()).clamp(-0.5, x.constant(0.7)), low / (re.sigmoid() + 1)]
made = apply(Mine(), [0.5, -2, 0.3, 4], {'a': [0.1, -3], 'b': [0.2, 3]})
print(*(f'{value:.6f}' for value in made))
class Both(TracedOperator):
    def build(self, x):
        p = x.parameter('p', 1)
        return [c - p * p.dot(c) / p.dot(p) for c in x.components(8)]
    def build_lhs(self, x):
        return [c * x.parameter('q', 1) + x.constant(1).sum() for c in x.components(8)]
given, embedding = {'p': [1, 3], 'q': [2, -1]}, range(16)
for made in apply(Both(), embedding, given), apply_lhs(Both(), embedding, given):
    print(*(f'{value:.3f}' for value in made))
class Mean(TracedOperator):
    def build(self, x):
        return [x.component(0).mean()]
class Nothing(TracedOperator):
    def build(self, x):
        return [x.component(0) * x.parameter('a', 'one')]
    def build_lhs(self, x):
        return []
try:
    apply(Nothing(), [1], {'a': [1]})
except ValueError as error:
    print('no outputs' if 'returned no outputs' in str(error) else error)
try:
    apply(Mean(), [1], {})
except TypeError as error:
    print('no mean' if 'mix the elements' in str(error) else error)
";

/// Comparators in two languages: one of 2 components that uses numbers elementwise, one whose score is not one number,
/// and one of a component that does not exist.
const COMPARATOR_IN_JAVASCRIPT: &str = "
import { TracedComparator } from './index.js';
import { checkTracedComparator, compare } from './testing.js';
class Mine extends TracedComparator {
  static metadata() { return { name: 'mine', version: '1', summary: '' }; }
  components = 2;
  build(left, right) {
    const [[a, b], [c, d]] = [left.components(2), right.components(2)];
    const length = a.dot(a).add(left.constant(1)).sqrt();
    return a.div(length).sub(c).abs().sum().neg().add(b.sin().mul(d.cos()).sum());
  }
}
checkTracedComparator(Mine);
console.log(compare(new Mine(), [0.5, -2, 0.3, 4], [1, 0.25, -3, 0.7]).toFixed(6));
class Apart extends Mine {
  build(left, right) { return left.component(0).mul(right.component(1)); }
}
class Beyond extends Mine {
  build(left) { return left.component(2).sum(); }
}
for (const wrong of [Apart, Beyond]) {
  try {
    checkTracedComparator(wrong);
  } catch (error) {
    console.log(error.message.split(':')[0]);
  }
}
";
const COMPARATOR_IN_PYTHON: &str = "
from pbg_plugin import Metadata, TracedComparator, cos, sin
from pbg_plugin.testing import check_traced_comparator, compare
class Mine(TracedComparator):
    components = 2
    @classmethod
    def metadata(cls):
        return Metadata('mine', '1', '')
    def build(self, left, right):
        (a, b), (c, d) = left.components(2), right.components(2)
        length = (a.dot(a) + left.constant(1)).sqrt()
        return -abs(a / length - c).sum() + (sin(b) * cos(d)).sum()
check_traced_comparator(Mine)
print(f'{compare(Mine(), [0.5, -2, 0.3, 4], [1, 0.25, -3, 0.7]):.6f}')
class Apart(Mine):
    def build(self, left, right):
        return left.component(0) * right.component(1)
class Beyond(Mine):
    def build(self, left, right):
        return left.component(2).sum()
for wrong in Apart, Beyond:
    try:
        check_traced_comparator(wrong)
    except (AssertionError, ValueError) as error:
        print(str(error).split(':')[0])
";

/// Schedules in two languages: one that uses all numbers of a position, one that falls below 0, and one that returns no
/// number.
const SCHEDULE_IN_JAVASCRIPT: &str = "
import { Position, RateSchedule } from './index.js';
import { exportSchedule } from './component.js';
import { checkFactor, checkSchedule } from './testing.js';
class Mine extends RateSchedule {
  static metadata() { return { name: 'mine', version: '1', summary: '' }; }
  factor(position) { return 1 / (1 + position.elapsed) + position.share + position.length / 1e4; }
}
checkSchedule(Mine);
for (const epoch of [1.5, 4, 9]) {
  console.log(checkFactor(Mine, new Position({ epoch, start: 1.5, end: 9 })).toFixed(9));
}
class Steep extends Mine {
  factor(position) { return 1 - position.elapsed; }
}
try {
  checkSchedule(Steep);
} catch (error) {
  console.log(error.message.split(' for ')[0]);
}
class Nothing extends Mine {
  factor() { return null; }
}
try {
  exportSchedule(Nothing, () => {}, () => ({})).learningRateSchedule.factor({ epoch: 1, start: 0, end: 2 });
} catch (error) {
  // `console.log` writes to the host's log now.
  process.stdout.write(error.replace(/ \\(.*/, '') + '\\n');
}
";
const SCHEDULE_IN_PYTHON: &str = "
from pbg_plugin import Metadata, Position, RateSchedule
from pbg_plugin.testing import check_factor, check_schedule
class Mine(RateSchedule):
    @classmethod
    def metadata(cls):
        return Metadata('mine', '1', '')
    def factor(self, position):
        return 1 / (1 + position.elapsed) + position.share + position.length / 1e4
check_schedule(Mine)
for epoch in 1.5, 4, 9:
    print(f'{check_factor(Mine, Position(epoch, 1.5, 9)):.9f}')
class Steep(Mine):
    def factor(self, position):
        return 1 - position.elapsed
try:
    check_schedule(Steep)
except AssertionError as error:
    print(str(error).split(' for ')[0])
from pbg_plugin.schedule import number
for answer in '0.5', True, None:
    try:
        number(answer)
        print(f'{answer!r} is taken for a number')
    except TypeError as error:
        said = f'TypeError: {error}'
print(said.replace('None', 'null'))
";

/// The row-by-row plan of a grid with partitions of one MiB, as in the other languages.
const C: &str = r#"
#include "pbg_order.h"
#include <stdio.h>
static pbg_traffic_t of(uint32_t rows, uint32_t columns, uint32_t room, bool still, uint32_t there) {
    static uint64_t edges[256], sizes[16], none[1];
    static pbg_bucket_t plan[256];
    for (int i = 0; i < 256; i++) edges[i] = 1000, plan[i] = (pbg_bucket_t){i / columns, i % columns};
    for (int i = 0; i < 16; i++) sizes[i] = 1 << 20;
    pbg_pass_t pass = {.lhs_partitions = rows, .rhs_partitions = columns, .shared = rows == columns,
                       .buffer_partitions = room};
    pass.edges.ptr = edges, pass.lhs_bytes.ptr = still ? none : sizes, pass.rhs_bytes.ptr = sizes;
    pass.resident_rhs.ptr = &there, pass.resident_rhs.len = still;
    pbg_traffic_t found = {0};
    uint32_t needed[2];
    if (!pbg_traffic(&pass, plan, rows * columns, &found)) return (pbg_traffic_t){0};
    if (still) printf("%d %d %d\n%d %d\n", (int)found.loads, (int)found.swaps, (int)found.bytes,
                      (int)pbg_needs(&pass, plan[1], needed) - 1, (int)pbg_partitions(&pass));
    return found;
}
int main(void) {
    int sizes[][2] = {{8, 2}, {16, 2}, {8, 4}, {16, 4}, {16, 8}};
    for (int i = 0; i < 5; i++)
        printf("%d%c", (int)of(sizes[i][0], sizes[i][0], sizes[i][1], false, 0).swaps, i == 4 ? 10 : 32);
    of(1, 3, 2, true, 2);
    return 0;
}
"#;

/// Prints the largest relative differences from this machine's C library; NaN must be NaN in both.
const MATH: &str = r#"
#include <math.h>
#include <stdio.h>
#define ONE(name, from, to) double pbg_##name(double); static void try_##name(void) { \
    for (int i = 0; i <= 100000; i++) { \
        double x = from + (to - from) * (i / 100000.0), a = pbg_##name(x), b = name(x); \
        if (!(a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 8e-16 * fabs(b) + 1e-307)) \
            printf(#name "(%g) is %.17g, not %.17g\n", x, a, b); \
    } }
ONE(exp, -750, 715) ONE(expm1, -40, 40) ONE(log, -1, 1e3) ONE(log1p, -1, 4) ONE(log2, 1e-3, 9) ONE(log10, 1e-3, 9)
ONE(tanh, -30, 30) ONE(round, -3, 3) ONE(sin, -50, 50) ONE(cos, -50, 50) ONE(cbrt, -9, 9)
#define WIDE(name) static void wide_##name(void) { \
    for (int i = -1070; i < 1024; i++) for (int j = 0; j < 200; j++) { \
        double x = ldexp(1.0 + j * 0.004987, i), a = pbg_##name(x), b = name(x); \
        if (!(fabs(a - b) <= 8e-16 * fabs(b) + 1e-307)) \
            printf(#name "(%a) is %.17g, not %.17g\n", x, a, b); \
    } }
WIDE(sin) WIDE(cos) WIDE(cbrt)
double pbg_pow(double, double);
int main(void) {
    try_exp(), try_expm1(), try_log(), try_log1p(), try_log2(), try_log10(), try_tanh(), try_round();
    try_sin(), try_cos(), try_cbrt(), wide_sin(), wide_cos(), wide_cbrt();
    // Values near multiples of a quarter turn, zeros, and values that are not angles.
    const double hard[] = {0x1.921fb54442d18p+0, 0x1.921fb54442d18p+1, 0.0, -0.0, 1e300};
    for (int i = 0; i < 5; i++) {
        double s = pbg_sin(hard[i]), c = pbg_cos(-hard[i]), x = hard[i];
        if (fabs(s - sin(x)) > 8e-16 * fabs(sin(x)) || fabs(c - cos(x)) > 8e-16 * fabs(cos(x)) || signbit(s) != signbit(sin(x)))
            printf("sin, cos(%a) are %.17g, %.17g, not %.17g, %.17g\n", x, s, c, sin(x), cos(x));
    }
    // No number is nearer to a multiple of a quarter turn. Libraries get its distance wrong.
    double nearest = pbg_cos(0x1.6ac5b262ca1ffp+849);
    if (fabs(nearest + 0x1.14ae72e6ba22fp-61) > 8e-16 * 0x1p-61) printf("the nearest is %a\n", nearest);
    if (!isnan(pbg_sin(INFINITY)) || !isnan(pbg_cos(NAN))) printf("an angle without end\n");
    for (int i = -200; i < 1000; i++) for (int j = -300; j < 300; j++) {
        double x = i * 0.017, y = j * 0.25, a = pbg_pow(x, y), b = pow(x, y);
        if (!(a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-13 * fabs(b)))
            printf("pow(%g, %g) is %.17g, not %.17g\n", x, y, a, b);
    }
    return 0;
}
"#;

/// Invalid answers, given to the component's glue, whose errors say what is wrong with each.
const ANSWERS_IN_JAVASCRIPT: &str = r#"
import { exportNegativeSelector, exportOrder, exportSampler } from './component.js';
import { NegativeSelector, Order, Pass, Sampler, entities, weights } from './index.js';

let answer;
class Mine extends Order {
  plan() { return answer; }
  pick() { return answer; }
}
class Draws extends Sampler {
  begin() { return { next: () => answer }; }
}
class Selects extends NegativeSelector {
  select() { return answer; }
}
const silent = () => {};
const order = exportOrder(Mine, silent).bucketOrder;
const draws = exportSampler(Draws, silent).relationSampler.Sampler.create([1], 1, 1);
const selects = exportNegativeSelector(Selects, silent).negativeSelection;
const chunk = { relations: [0], kept: [1], replaced: [2], candidates: [3], seed: 1n };
const pass = Pass.uniform(2, 2);
// Console output goes to the host's log.
const say = (call) => {
  let said;
  try {
    said = JSON.stringify(call());
  } catch (words) {
    said = words;
  }
  process.stdout.write(`${said}\n`);
};
const bucket = { lhs: 0, rhs: 1 };
const plans = [undefined, 7, [bucket, 7], [bucket, { lhs: 0 }], [{ lhs: 1.5, rhs: 0 }], [bucket, { lhs: 0, rhs: -1 }],
  [{ lhs: 0n, rhs: 0 }], [, bucket], [bucket]];
for (answer of plans) say(() => order.plan(pass));
for (answer of [null, 2 ** 32, 1]) say(() => order.pick(pass, [], [bucket]));
for (answer of ['a', { relation: 0, edges: '1' }, null, { relation: 0, edges: 1 }]) say(() => draws.next());
const selections = [[3], entities(new Uint32Array([3])), weights(new Float32Array([0.5])), entities([0.5]), weights('3')];
for (answer of selections) say(() => selects.select(chunk));
"#;

const WHAT_IS_WRONG: &str = "\
TypeError: plan returned undefined, not an array of buckets
TypeError: plan returned 7, not an array of buckets
TypeError: bucket 1 of the plan is 7, not { lhs, rhs }
TypeError: bucket 1 of the plan is {\"lhs\":0}, not { lhs, rhs }
TypeError: lhs of bucket 0 of the plan is 1.5, not a whole number
RangeError: rhs of bucket 1 of the plan is -1, not a number from 0 to 4294967295
TypeError: lhs of bucket 0 of the plan is 0n, not a whole number
TypeError: bucket 0 of the plan is undefined, not { lhs, rhs }
[{\"lhs\":0,\"rhs\":1}]
TypeError: what pick returned is null, not a whole number
RangeError: what pick returned is 4294967296, not a number from 0 to 4294967295
1
TypeError: a draw is \"a\", not { relation, edges }
TypeError: edges of a draw is \"1\", not a whole number
undefined
{\"relation\":0,\"edges\":1}
TypeError: select returned [3], not entities([...]) or weights([...])
{\"tag\":\"entities\",\"val\":[3]}
{\"tag\":\"weights\",\"val\":[0.5]}
TypeError: entity 0 is 0.5, not a whole number
TypeError: select returned {\"tag\":\"weights\",\"val\":\"3\"}, not entities([...]) or weights([...])
";

/// Files that a test provides, read as by a plugin in Python.
const FILES_IN_PYTHON: &str = r#"
from pbg_plugin import files
files.provide("a/b.txt", "größer")
files.provide("c.bin", b"123")
print(files.read_text("a/b.txt"), files.read("c.bin"))
print([tuple(entry) for entry in files.entries()], [tuple(entry) for entry in files.entries("a")])
for read in files.read, files.entries:
    try:
        read("d")
    except OSError as error:
        print(error)
"#;

const PROVIDED: &str = "\
größer b'123'
[('a', True, 0), ('c.bin', False, 3)] [('b.txt', False, 8)]
d: no test has provided it
d: no test has provided anything in it
";

/// Returns whether there is a C compiler; reports if there is none.
pub(crate) fn clang() -> bool {
    let found = Command::new("clang").arg("--version").output().is_ok();
    if !found {
        without("clang", "there is no clang");
    }
    found
}

fn folder(sdk: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../plugins")
        .join(sdk)
}

/// Returns the output of a script next to the SDK for JavaScript; nothing if Node is missing.
pub(crate) fn in_node(script: &str) -> Option<String> {
    if Command::new("node").arg("--version").output().is_err() {
        without("node", "there is no node");
        return None;
    }
    let place = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(folder("sdk-javascript/pbg_plugin")).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), place.path().join(file.file_name())).unwrap();
    }
    std::fs::write(place.path().join("script.mjs"), script).unwrap();
    std::fs::write(place.path().join("package.json"), r#"{ "type": "module" }"#).unwrap();
    let mut node = Command::new("node");
    let run = finish(node.arg("script.mjs").current_dir(place.path()));
    Some(run.succeeds().stdout)
}

/// Returns the output of a script that imports the SDK for Python.
pub(crate) fn in_python(script: &str) -> String {
    let mut python = Command::new("python3");
    python
        .args(["-B", "-c", script])
        .env("PYTHONPATH", folder("sdk-python"));
    finish(&mut python).succeeds().stdout
}

#[test]
fn traffic_is_the_same_in_javascript() {
    if let Some(counted) = in_node(JAVASCRIPT) {
        assert_eq!(counted, EXPECTED);
    }
}

#[test]
fn traffic_is_the_same_in_python() {
    assert_eq!(in_python(PYTHON), EXPECTED);
}

#[test]
fn operators_in_javascript_compute_what_those_in_python_do() {
    if let Some(applied) = in_node(OPERATOR_IN_JAVASCRIPT) {
        assert_eq!(applied, in_python(OPERATOR_IN_PYTHON));
        assert!(applied.ends_with("no outputs\nno mean\n"), "{applied}");
    }
}

#[test]
fn comparators_in_javascript_compute_what_those_in_python_do() {
    let compared = in_python(COMPARATOR_IN_PYTHON);
    let refused = "the score differs from element to element\nthere is no component 2\n";
    assert!(compared.ends_with(refused), "{compared}");
    if let Some(others) = in_node(COMPARATOR_IN_JAVASCRIPT) {
        assert_eq!(others, compared);
    }
}

#[test]
fn schedules_in_javascript_return_what_those_in_python_do() {
    let returned = in_python(SCHEDULE_IN_PYTHON);
    assert!(
        returned.starts_with("1.000750000\n0.619797619\n1.118397059\n"),
        "{returned}"
    );
    assert!(returned.contains("a factor of -0.5"), "{returned}");
    if let Some(others) = in_node(SCHEDULE_IN_JAVASCRIPT) {
        assert_eq!(others, returned);
    }
}

#[test]
fn javascript_says_which_part_of_an_answer_is_wrong() {
    if let Some(said) = in_node(ANSWERS_IN_JAVASCRIPT) {
        assert_eq!(said, WHAT_IS_WRONG);
    }
}

#[test]
fn tests_in_python_provide_files() {
    assert_eq!(in_python(FILES_IN_PYTHON), PROVIDED);
}

#[test]
fn traffic_is_the_same_in_c() {
    if !clang() {
        return;
    }
    let place = Workplace::empty();
    let new = "plugin new mine --kind order --lang c";
    place.run(new.split(' ')).succeeds();
    place.write("mine/count.c", C);
    let mut compile = Command::new("clang");
    let warnings = [
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-attributes",
        "-Wno-ignored-attributes",
    ];
    compile
        .args(["-Ibindings", "-Ipbg_plugin", "-o", "count", "count.c"])
        .args(warnings);
    finish(compile.current_dir(place.path("mine"))).succeeds();
    let counted =
        finish(Command::new(place.path("mine/count")).current_dir(place.path(""))).succeeds();
    assert_eq!(counted.stdout, EXPECTED);
}

#[test]
fn mathematics_in_c_is_that_of_the_c_library() {
    if !clang() {
        return;
    }
    let place = Workplace::empty();
    place.write("main.c", MATH);
    let libc = folder("sdk-c/pbg_plugin/libc");
    let mut compile = Command::new("clang");
    compile.args([
        "-std=c11",
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-nostdlibinc",
        "-isystem",
    ]);
    compile.arg(&libc).arg("-c").arg(libc.join("math.c"));
    let header = std::fs::read_to_string(libc.join("math.h")).unwrap();
    for line in header.lines().filter(|line| line.ends_with(");")) {
        let name = line.split(['(', ' ']).nth(1).unwrap();
        compile.arg(format!("-D{name}=pbg_{name}"));
    }
    finish(compile.current_dir(place.path(""))).succeeds();
    let mut link = Command::new("clang");
    link.args(["main.c", "math.o", "-lm", "-o", "try"]);
    finish(link.current_dir(place.path(""))).succeeds();
    let tried = finish(Command::new(place.path("try")).current_dir(place.path(""))).succeeds();
    assert_eq!(tried.stdout, "");
}

/// Every name that index.js exports is declared for editors.
#[test]
fn the_types_for_javascript_have_every_name() {
    let read = |file: &str| {
        std::fs::read_to_string(folder("sdk-javascript/pbg_plugin").join(file)).unwrap()
    };
    let types = read("index.d.ts");
    let index = read("index.js");
    let exports = index.lines().filter(|line| line.starts_with("export "));
    let names = exports.flat_map(|line| {
        let list = line
            .trim_start_matches("export ")
            .split(" from ")
            .next()
            .unwrap();
        let list = list
            .trim_start_matches("* as ")
            .trim_matches(['{', '}', ' ']);
        list.split(',')
            .map(|name| name.trim().to_owned())
            .collect::<Vec<_>>()
    });
    let names: Vec<String> = names.collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        let kinds = ["class", "function", "const", "namespace"];
        let declared = kinds.iter().any(|kind| {
            [" ", "(", ":", "<"]
                .iter()
                .any(|end| types.contains(&format!("export {kind} {name}{end}")))
        });
        assert!(declared, "index.d.ts lacks {name}");
    }
}
