//! `pbg-host export`.

use std::path::PathBuf;

use crate::arguments::ConfigArgs;
use crate::failure::Result;
use crate::load;
use crate::terminal::{self, Terminal};
