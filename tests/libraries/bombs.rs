//! Small components that would keep a compiler or an instantiation busy for a long time: a good plugin with unnecessary
//! sections appended.
//!
//! The program's own tests use them, too.

/// Ids of the sections of a component.
const MODULE: u8 = 1;
const INSTANCES: u8 = 2;
/// A component within a component.
pub const COMPONENT: u8 = 4;
const COMPONENT_INSTANCES: u8 = 5;

/// Name, component, and a part of the expected refusal; `None` if no rule forbids it.
pub type Bomb = (&'static str, Vec<u8>, Option<&'static str>);

/// Returns components with more of something than any plugin may have; counting alone refuses them.
pub fn counted(good: &[u8]) -> Vec<Bomb> {
    vec![
        (
            "nested components, 2^22 instances",
            nested(good, 22),
            Some("more than 1000 instances of modules and nested components"),
        ),
        (
            "nested components, 2^63 instances",
            nested(good, 63),
            Some("more than 1000 instances of modules and nested components"),
        ),
        (
            "a million passive elements",
            append(good, MODULE, &elements(1_000_000)),
            Some("more than 100000 entries of element segments"),
        ),
        (
            "a thousand elements in 120 instances",
            crowded(good, 120, &elements(1000)),
            Some("more than 100000 entries of element segments"),
        ),
        (
            "8000 globals in 120 instances",
            crowded(good, 120, &globals(8000)),
            Some("more than 50000 globals"),
        ),
        (
            "39,000 functions of 50,000 locals",
            append(good, MODULE, &functions(39_000, &body(50_000, &[]))),
            Some("more than 5000 locals in one function"),
        ),
        (
            "39,000 functions of 100 locals",
            append(good, MODULE, &functions(39_000, &body(100, &[]))),
            Some("more than 1000000 locals"),
        ),
        (
            "4000 functions in 120 instances",
            crowded(good, 120, &functions(4000, &body(0, &[]))),
            Some("more than 40000 functions"),
        ),
        (
            "100,000 nested loops",
            append(good, MODULE, &functions(1, &body(0, &loops(100_000)))),
            Some("more than 2000 blocks nested"),
        ),
        (
            "a function of 600 KB",
            append(good, MODULE, &functions(1, &body(1, &sums(100_000, 1)))),
            Some("more than 524288 bytes in one function"),
        ),
        (
            "3 MiB of data in 120 instances",
            crowded(good, 120, &data(3 << 20)),
            Some("more than 268435456 bytes of data"),
        ),
        (
            "a component that is handed what it instantiates",
            handed(good),
            Some("that it receives from outside"),
        ),
    ]
}

/// Returns components below every count, which may be compiled within the limits of compilation.
pub fn below_every_cap(good: &[u8]) -> Vec<Bomb> {
    let module = |module: Vec<u8>| append(good, MODULE, &module);
    vec![
        ("nested components, 2^6 instances", nested(good, 6), None),
        ("99,000 elements", module(elements(99_000)), None),
        (
            "400 globals in 120 instances",
            crowded(good, 120, &globals(400)),
            None,
        ),
        ("49,000 globals", module(globals(49_000)), None),
        (
            "39,000 functions of 25 locals",
            module(functions(39_000, &body(25, &[]))),
            None,
        ),
        (
            "a hundred functions of 1990 nested loops",
            module(functions(100, &body(0, &loops(1990)))),
            None,
        ),
        (
            "a function of 250 KB with 3000 locals",
            module(functions(1, &body(3000, &joins(3000, 30_000)))),
            None,
        ),
        (
            "two functions of 500 KB with 4900 locals",
            module(functions(2, &body(4900, &joins(4900, 50_000)))),
            None,
        ),
        (
            "a function full of phis",
            module(functions(1, &body(2000, &phis(2000, 40_000)))),
            None,
        ),
        (
            "four functions of 490 KB",
            module(functions(4, &body(8, &sums(70_000, 8)))),
            None,
        ),
    ]
}

/// Returns `good` with one more section.
pub fn append(good: &[u8], id: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = good.to_vec();
    section(&mut bytes, id, content);
    bytes
}

/// Returns `good` with `instances` core instances of `module`.
pub fn crowded(good: &[u8], instances: usize, module: &[u8]) -> Vec<u8> {
    let (modules, _) = defined(good);
    let mut body = leb128(instances);
    for _ in 0..instances {
        body.push(0); // instantiate
        body.extend(leb128(modules));
        body.push(0); // without arguments
    }
    append(&append(good, MODULE, module), INSTANCES, &body)
}

/// Returns nested components, each of which creates two instances of the one within it.
fn nested(good: &[u8], depth: usize) -> Vec<u8> {
    const HEADER: &[u8] = b"\0asm\x0d\0\x01\0";
    let mut inner = HEADER.to_vec();
    section(&mut inner, MODULE, b"\0asm\x01\0\0\0");
    section(&mut inner, INSTANCES, &[1, 0, 0, 0]);
    for _ in 1..depth {
        let mut outer = HEADER.to_vec();
        section(&mut outer, COMPONENT, &inner);
        section(&mut outer, COMPONENT_INSTANCES, &[2, 0, 0, 0, 0, 0, 0]);
        inner = outer;
    }
    let (_, components) = defined(good);
    let mut two = vec![2];
    for _ in 0..2 {
        two.push(0);
        two.extend(leb128(components));
        two.push(0);
    }
    append(&append(good, COMPONENT, &inner), COMPONENT_INSTANCES, &two)
}

/// Returns a nested component that instantiates a module which it imports.
fn handed(good: &[u8]) -> Vec<u8> {
    let inner = wat::parse_str(
        "(component (import \"m\" (core module $m)) (core instance (instantiate $m)))",
    );
    append(good, COMPONENT, &inner.expect("valid text"))
}

/// Returns the numbers of modules and of components at the top level of `good`.
fn defined(good: &[u8]) -> (usize, usize) {
    let (mut at, mut modules, mut components) = (8, 0, 0);
    while at < good.len() {
        modules += usize::from(good[at] == MODULE);
        components += usize::from(good[at] == COMPONENT);
        let (size, length) = read_leb128(&good[at + 1..]);
        at += 1 + length + size;
    }
    (modules, components)
}

/// Returns a module with one function, and a passive segment of `entries` references to it.
fn elements(entries: usize) -> Vec<u8> {
    let mut segment = vec![1, 1, 0]; // one segment; passive; of functions
    segment.extend(leb128(entries));
    segment.resize(segment.len() + entries, 0);
    let mut module = one_type(1);
    section(&mut module, 9, &segment);
    section(&mut module, 10, &[1, 2, 0, 0x0b]);
    module
}

/// Returns a module with `count` globals.
fn globals(count: usize) -> Vec<u8> {
    let mut module = b"\0asm\x01\0\0\0".to_vec();
    let mut content = leb128(count);
    for _ in 0..count {
        content.extend([0x7f, 1, 0x41, 7, 0x0b]); // a variable i32 that is 7
    }
    section(&mut module, 6, &content);
    module
}

/// Returns a module with `bytes` bytes of passive data.
fn data(bytes: usize) -> Vec<u8> {
    let mut module = b"\0asm\x01\0\0\0".to_vec();
    let mut content = vec![1, 1];
    content.extend(leb128(bytes));
    content.resize(content.len() + bytes, 7);
    section(&mut module, 11, &content);
    module
}

/// Returns a module with `count` functions of this body.
pub fn functions(count: usize, body: &[u8]) -> Vec<u8> {
    let mut module = one_type(count);
    let mut code = leb128(count);
    for _ in 0..count {
        code.extend(leb128(body.len()));
        code.extend(body);
    }
    section(&mut module, 10, &code);
    module
}

/// Returns the beginning of a module whose functions have no parameters and no results.
fn one_type(functions: usize) -> Vec<u8> {
    let mut module = b"\0asm\x01\0\0\0".to_vec();
    section(&mut module, 1, &[1, 0x60, 0, 0]);
    let mut types = leb128(functions);
    types.resize(types.len() + functions, 0);
    section(&mut module, 3, &types);
    module
}

/// Returns a function's body with `locals` locals of type i32.
pub fn body(locals: usize, code: &[u8]) -> Vec<u8> {
    let mut body = vec![1];
    body.extend(leb128(locals));
    body.push(0x7f);
    body.extend(code);
    body.push(0x0b);
    body
}

/// Returns nested loops.
fn loops(depth: usize) -> Vec<u8> {
    let mut code = [0x03, 0x40].repeat(depth);
    code.resize(code.len() + depth, 0x0b);
    code
}

/// Increases one of the locals, `times` times.
fn sums(times: usize, locals: usize) -> Vec<u8> {
    let mut code = Vec::new();
    for i in 0..times {
        local(&mut code, 0x20, i % locals);
        code.extend([0x41, 1, 0x6a]); // i32.const 1, i32.add
        local(&mut code, 0x21, i % locals);
    }
    code
}

/// Returns `times` branches, one side of which changes a local: after each, every local may have two values.
fn joins(locals: usize, times: usize) -> Vec<u8> {
    let mut code = Vec::new();
    for i in 0..times {
        local(&mut code, 0x20, i % locals);
        code.extend([0x04, 0x40]); // if
        local(&mut code, 0x20, (7 * i + 1) % locals);
        local(&mut code, 0x21, (3 * i + 2) % locals);
        code.push(0x0b);
        if code.len() > 500 << 10 {
            break;
        }
    }
    code
}

/// Returns loops that each change a local and use all earlier ones: at the beginning of every loop, each local has a
/// value to choose (a phi).
fn phis(locals: usize, times: usize) -> Vec<u8> {
    let mut code = Vec::new();
    for i in 0..times {
        code.extend([0x03, 0x40]); // loop
        local(&mut code, 0x20, (5 * i) % locals);
        local(&mut code, 0x21, (i + 1) % locals);
        local(&mut code, 0x20, (11 * i + 3) % locals);
        code.extend([0x0d, 0, 0x0b]); // br_if 0, end
        if code.len() > 300 << 10 {
            break;
        }
    }
    code
}

fn local(code: &mut Vec<u8>, instruction: u8, index: usize) {
    code.push(instruction);
    code.extend(leb128(index));
}

/// Appends a section.
pub fn section(bytes: &mut Vec<u8>, id: u8, content: &[u8]) {
    bytes.push(id);
    bytes.extend(leb128(content.len()));
    bytes.extend(content);
}

/// Returns a number and the length of its encoding in bytes.
fn read_leb128(bytes: &[u8]) -> (usize, usize) {
    let mut value = 0;
    for (i, byte) in bytes.iter().enumerate() {
        value |= usize::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return (value, i + 1);
        }
    }
    panic!("a number does not end");
}

fn leb128(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}
