//! Files that come with the program, as (path, content).

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
