//! From what is asked for to what replies must be.

use crate::job::Options;
use crate::workload::{Catalog, expect_files};

/// Says of the requests of a catalog what their replies must be, as far as that is known; what
/// whoever reads the report should know. Blocks on the disk.
///
/// # Errors
/// When files that are named are not those that are asked for, or replies are to be compared and
/// nothing is known of any.
pub(crate) fn expect(options: &Options, catalog: &mut Catalog) -> Result<Vec<String>, String> {
    let mut notes = Vec::new();
    if let Some(directory) = &options.verify_with {
        notes.extend(expect_files(catalog, directory)?);
    }
    if options.verify && !catalog.expects_something() {
        return Err("--verify has nothing to compare replies with: name the files that the \
                    server sends, as a --fileset or by --verify-with DIR"
            .into());
    }
    Ok(notes)
}
