//! Which of the listening sockets a worker reads, and which CPU it is bound to.

use flyball_sys::process;

use crate::settings::Settings;

/// One reader's share of the sockets of an address.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    number: usize,
    of: usize,
}

impl Share {
    /// The share of reader `index` of `readers`, which all read each address; or, by address, have
    /// some of the addresses each where these are more, and share one address with some others
    /// where these are fewer (M151).
    pub fn of(
        address: usize,
        addresses: usize,
        index: usize,
        readers: usize,
        by_address: bool,
    ) -> Option<Share> {
        if !by_address {
            return Some(Share { number: index, of: readers });
        }
        if readers <= addresses {
            return (address % readers == index).then_some(Share { number: 0, of: 1 });
        }
        let share =
            Share { number: index / addresses, of: (readers - address).div_ceil(addresses) };
        (index % addresses == address).then_some(share)
    }

    /// Whether it reads this socket of the address.
    pub fn reads(self, at: usize) -> bool {
        at % self.of == self.number
    }

    /// The same where the address has only so many sockets: where there are fewer than readers, as
    /// of those that were handed over, readers share them.
    pub fn reads_of(self, at: usize, sockets: usize) -> bool {
        self.reads(at) || self.number % sockets == at
    }

    /// Whether others read the same sockets, where the address has only so many.
    pub fn is_shared(self, sockets: usize) -> bool {
        self.of > sockets
    }
}

/// The CPU that a worker is bound to, if it is: the next of those that are named or allowed.
pub fn cpu_of_worker(settings: &Settings, index: usize) -> Option<usize> {
    if !settings.pin {
        return None;
    }
    let allowed = process::allowed_cpus();
    let cpus = if settings.pin_cpus.is_empty() { &allowed } else { &settings.pin_cpus };
    Some(cpus[index % cpus.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_share_sockets_where_there_are_fewer() {
        for (readers, sockets) in (1..=4).flat_map(|r| (1..=4).map(move |s| (r, s))) {
            let share = |reader| Share::of(0, 1, reader, readers, false).unwrap();
            let reads = |at| {
                let reader = |reader: &usize| share(*reader).reads_of(at, sockets);
                (0..readers).filter(reader).count()
            };
            let is_shared = (0..sockets).any(|at| reads(at) > 1);
            assert_eq!(share(0).is_shared(sockets), is_shared, "{readers} of {sockets}");
        }
    }

    #[test]
    fn every_socket_has_one_reader_and_every_reader_a_socket() {
        for (addresses, readers) in (1..=5).flat_map(|a| (1..=5).map(move |r| (a, r))) {
            for by_address in [false, true] {
                let share =
                    |address, reader| Share::of(address, addresses, reader, readers, by_address);
                let reads =
                    |address, at, reader| share(address, reader).is_some_and(|s| s.reads(at));
                let each = readers;
                for (address, at) in (0..addresses).flat_map(|a| (0..each).map(move |at| (a, at))) {
                    let count = (0..readers).filter(|reader| reads(address, at, *reader)).count();
                    assert_eq!(count, 1, "{addresses} addresses, {readers} readers");
                }
                for reader in 0..readers {
                    let own = (0..addresses).filter(|address| share(*address, reader).is_some());
                    let expected = if by_address { addresses.div_ceil(readers) } else { addresses };
                    let own = own.count();
                    assert!(own > 0 && own <= expected, "{own} of {addresses}, {readers} readers");
                }
            }
        }
    }
}
