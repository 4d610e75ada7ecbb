//! Two hosts on one machine: a network namespace for the server and one for the clients, joined by
//! a pair of virtual Ethernet devices with the MTU of the real thing.
//!
//! The kernel's counters of drops and its settings of TCP are those of a namespace, so nothing of
//! the machine is changed. Loopback would carry 64 KiB in a packet, and make "one packet"
//! meaningless.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process;

use super::programs::run;
use super::{PREFIX, SetupError, left_behind};

/// Where servers listen: of the block that RFC 2544 sets aside for measurements.
pub const SERVER_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// The first address of the clients; they have `CLIENT_ADDRESSES` from here on.
pub const CLIENT_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 1);

/// How many addresses clients have: each gives them the ports of one more host.
pub const CLIENT_ADDRESSES: u8 = 16;

/// Bytes of a packet, as on Ethernet.
const MTU: &str = "1500";

/// The least length of the queue of half-open connections, as S0's kernel had it. Today the accept
/// queue's length bounds it too.
const HALF_OPEN_MIN: u32 = 1_024;

/// How many attempts to connect are a second apart (Linux 6.5).
const LINEAR_TIMEOUTS: &str = "net.ipv4.tcp_syn_linear_timeouts";

/// The pair of namespaces. Gone when dropped.
#[derive(Debug)]
pub struct Network {
    server: String,
    client: String,
}

impl Network {
    /// Makes both and joins them. A packet is taken in on the CPU of the host that receives it, and
    /// not on that of the sender, which a virtual device would otherwise use. Blocks.
    ///
    /// # Errors
    /// Without the right to, or without iproute2.
    pub fn new(server_cpu: u32, client_cpu: u32, backlog: u32) -> Result<Network, SetupError> {
        let id = process::id();
        let network =
            Network { server: format!("{PREFIX}{id}-s"), client: format!("{PREFIX}{id}-c") };
        let devices = (format!("fl{id}s"), format!("fl{id}c"));
        let (server, client) = (network.server.as_str(), network.client.as_str());
        for name in [server, client] {
            run("ip", &["netns", "add", name])?;
        }
        let (near, far) = (devices.0.as_str(), devices.1.as_str());
        run(
            "ip",
            &[
                "link", "add", near, "netns", server, "type", "veth", "peer", "name", far, "netns",
                client,
            ],
        )?;
        network.bring_up(server, near, &[SERVER_ADDRESS], server_cpu)?;
        let first = u32::from(CLIENT_ADDRESS);
        let clients: Vec<Ipv4Addr> =
            (0..u32::from(CLIENT_ADDRESSES)).map(|at| Ipv4Addr::from(first + at)).collect();
        network.bring_up(client, far, &clients, client_cpu)?;
        network.set(server, "net.core.somaxconn", &backlog.to_string())?;
        let half_open = backlog.max(HALF_OPEN_MIN).to_string();
        network.set(server, "net.ipv4.tcp_max_syn_backlog", &half_open)?;
        network.set(client, "net.ipv4.ip_local_port_range", "1024 65535")?;
        // The runs of a minute use every port up. Looking for a free one then takes milliseconds,
        // which would be counted as the generator's; one whose connection ended a second ago is as
        // good (RFC 6191).
        network.set(client, "net.ipv4.tcp_tw_reuse", "1")?;
        // Clients of the papers tried again after 1, 3 and 7 seconds, as those of kernels before
        // Linux 6.5 do, which lack the setting.
        if has_setting(LINEAR_TIMEOUTS) {
            network.set(client, LINEAR_TIMEOUTS, "0")?;
        }
        Ok(network)
    }

    /// The server's namespace.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The clients' namespace.
    pub fn client(&self) -> &str {
        &self.client
    }

    /// Whether the server's kernel answers with cookies when its queue is full.
    ///
    /// # Errors
    /// Without the right to.
    pub fn set_syn_cookies(&self, on: bool) -> Result<(), SetupError> {
        self.set(&self.server, "net.ipv4.tcp_syncookies", if on { "1" } else { "0" })
    }

    fn bring_up(
        &self,
        namespace: &str,
        device: &str,
        addresses: &[Ipv4Addr],
        cpu: u32,
    ) -> Result<(), SetupError> {
        run("ip", &["-n", namespace, "link", "set", "lo", "up"])?;
        for address in addresses {
            let address = format!("{address}/16");
            run("ip", &["-n", namespace, "addr", "add", &address, "dev", device])?;
        }
        run("ip", &["-n", namespace, "link", "set", device, "mtu", MTU, "up"])?;
        let mask = mask(cpu);
        let file = format!("/sys/class/net/{device}/queues/rx-0/rps_cpus");
        let script = format!("echo {mask} > {file}");
        run("ip", &["netns", "exec", namespace, "sh", "-c", &script]).map(|_| ())
    }

    fn set(&self, namespace: &str, key: &str, value: &str) -> Result<(), SetupError> {
        let file = file_of(key);
        let script = format!("echo '{value}' > {file}");
        run("ip", &["netns", "exec", namespace, "sh", "-c", &script]).map(|_| ())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in [&self.server, &self.client] {
            // One that was never made cannot be removed.
            let _ = run("ip", &["netns", "del", name]);
        }
    }
}

/// The file of a setting of the kernel.
fn file_of(key: &str) -> String {
    format!("/proc/sys/{}", key.replace('.', "/"))
}

/// Whether this kernel has a setting.
fn has_setting(key: &str) -> bool {
    Path::new(&file_of(key)).exists()
}

/// The mask of one CPU as the kernel reads it: 32 of them in a word, the highest first.
fn mask(cpu: u32) -> String {
    format!("{:x}{}", 1_u32 << (cpu % 32), ",00000000".repeat(cpu as usize / 32))
}

/// Removes the namespaces of labs that are gone.
pub(super) fn clear_leftovers() -> Result<(), SetupError> {
    for name in left_behind_namespaces()? {
        // Another laboratory may be clearing them too.
        if let Err(error) = run("ip", &["netns", "del", &name])
            && left_behind_namespaces()?.contains(&name)
        {
            return Err(error);
        }
    }
    Ok(())
}

fn left_behind_namespaces() -> Result<Vec<String>, SetupError> {
    let list = run("ip", &["netns", "list"])?;
    let names = list.lines().filter_map(|line| line.split_whitespace().next());
    Ok(names.filter(|name| left_behind(name)).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_has_a_word_for_each_32_processors() {
        let masks = [0, 5, 31, 32, 70].map(mask);
        assert_eq!(masks, ["1", "20", "80000000", "1,00000000", "40,00000000,00000000"]);
    }
}
