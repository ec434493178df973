//! Files embedded in the program, as (path, content).

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
