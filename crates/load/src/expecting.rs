//! From what is asked for to what replies must be.

use crate::fileset;
use crate::options::Options;
use crate::set_checks;
use crate::target::Target;
use crate::workload::{Catalog, class_files, expect_files, expect_set};

/// Says of the requests of a catalog what their replies must be, as far as that is known; what
/// whoever reads the report should know. Blocks on the disk.
///
/// # Errors
/// When files that are named are not those that are asked for, the set is not what its seed makes
/// of it, or replies are to be compared and nothing is known of any.
pub(crate) fn expect(
    options: &Options,
    target: &Target,
    catalog: &mut Catalog,
) -> Result<Vec<String>, String> {
    if options.conditional > 0.0 && options.dynamic.is_some() {
        return Err("a dynamic reply has no date: use --conditional or --dynamic".into());
    }
    let mut notes = Vec::new();
    if let Some(directory) = &options.set {
        let manifest = fileset::open(directory)?;
        set_checks::check_disk(directory, &manifest)?;
        notes.extend(expect_set(catalog, directory, &manifest, &target.path)?);
        if let Some(peer) = target.peer().filter(|_| options.behaviour.verify) {
            set_checks::check_server(peer, catalog)?;
        }
    }
    if let Some(directory) = &options.sizes_of {
        class_files(catalog, directory);
    }
    if let Some(directory) = &options.verify_with {
        notes.extend(expect_files(catalog, directory)?);
    }
    if options.behaviour.verify && !catalog.expects_something() {
        return Err("--verify has nothing to compare replies with: name the files that the \
                    server sends, as a --fileset or by --verify-with DIR"
            .into());
    }
    Ok(notes)
}
