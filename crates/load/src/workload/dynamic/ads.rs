//! The two tables of SPECweb99's custom ad rotation, and which ad a user is shown.
//!
//! The server makes them when it is reset, and serves them as files; they are fetched before the
//! run, so that what it chooses is checked against what its own tables say.

/// Ads in the table, and in the round.
pub(super) const ADS: usize = 360;

/// Bytes of a record of `User.Personality`: number and demographics.
const USER_BYTES: usize = 15;

/// Bytes of a record of `Custom.Ads`: number, demographics, weights, least match, expiry.
const AD_BYTES: usize = 39;

/// The groups of demographics, each with where its weight stands among the weights.
const GROUPS: [(u32, u32); 5] = [
    (0x3000_0000, 16), // gender
    (0x0f00_0000, 12), // age
    (0x00f0_0000, 8),  // region
    (0x000f_fc00, 4),  // the first interest
    (0x0000_03ff, 0),  // the second interest
];

#[derive(Clone, Copy, Debug)]
struct Ad {
    demographics: u32,
    weights: u32,
    least_match: u32,
    expires_s: i64,
}

/// The ad that a user is to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) ad: u32,
    pub(super) weight: u32,
    /// When it expires, or has, in seconds since 1970.
    pub(super) expires_s: i64,
}

/// Both tables.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    users: Vec<u32>,
    ads: Vec<Ad>,
}

impl Tables {
    /// Reads them as the server has them.
    ///
    /// # Errors
    /// Which record is wrong.
    pub(super) fn read(users: &[u8], ads: &[u8]) -> Result<Tables, String> {
        let users = records(users, USER_BYTES, "User.Personality", |words, place| {
            let number: usize = words.first()?.parse().ok()?;
            (number == place).then(|| hex(words.get(1)?))?
        })?;
        let ads = records(ads, AD_BYTES, "Custom.Ads", |words, place| {
            let number: usize = words.first()?.parse().ok()?;
            let ad = Ad {
                demographics: hex(words.get(1)?)?,
                weights: hex(words.get(2)?)?,
                least_match: words.get(3)?.parse().ok()?,
                expires_s: words.get(4)?.parse().ok()?,
            };
            (number == place).then_some(ad)
        })?;
        if ads.len() != ADS {
            return Err(format!("Custom.Ads has {} ads, and not {ADS}", ads.len()));
        }
        if users.is_empty() {
            return Err("User.Personality has no user".into());
        }
        Ok(Tables { users, ads })
    }

    /// Users of the table.
    pub(super) fn users(&self) -> usize {
        self.users.len()
    }

    /// The first ad after the last one shown that matches the user well enough; `None` when none of
    /// them does, or there is no such user.
    pub(super) fn choose(&self, user: usize, last_ad: usize) -> Option<Found> {
        let own = *self.users.get(user)?;
        (1..=ADS).map(|step| (last_ad + step) % ADS).find_map(|at| {
            let ad = self.ads.get(at)?;
            let both = own & ad.demographics;
            let weigh = |(mask, shift): (u32, u32)| {
                if both & mask == 0 { 0 } else { (ad.weights >> shift) & 0xf }
            };
            let weight: u32 = GROUPS.into_iter().map(weigh).sum();
            let found = Found { ad: at as u32, weight, expires_s: ad.expires_s };
            (weight >= ad.least_match).then_some(found)
        })
    }
}

fn hex(word: &str) -> Option<u32> {
    u32::from_str_radix(word, 16).ok()
}

/// Every record of a table, by `read` of its words and place.
fn records<T>(
    table: &[u8],
    bytes: usize,
    name: &str,
    read: impl Fn(&[&str], usize) -> Option<T>,
) -> Result<Vec<T>, String> {
    if !table.len().is_multiple_of(bytes) {
        return Err(format!("{name} has {} bytes: no whole records of {bytes}", table.len()));
    }
    let each = table.chunks(bytes).enumerate().map(|(place, record)| {
        let text = str::from_utf8(record).ok().and_then(|text| text.strip_suffix('\n'));
        let words: Vec<&str> = text.unwrap_or_default().split_ascii_whitespace().collect();
        read(&words, place).ok_or_else(|| format!("{name}: record {place} is wrong"))
    });
    each.collect()
}

/// Tables of one user, who is `demographics`, and of ads that match nobody but those given as
/// place, demographics, weights, least match and expiry.
#[cfg(test)]
pub(super) fn tables(demographics: u32, own: &[(usize, u32, u32, u32, i64)]) -> Tables {
    let users = format!("{:5} {demographics:8X}\n", 0);
    let mut ads = String::new();
    for place in 0..ADS {
        let found = own.iter().find(|ad| ad.0 == place);
        let (_, demographics, weights, least, expires) =
            found.copied().unwrap_or((place, 0, 0, 999, 0));
        ads += &format!("{place:5} {demographics:8X} {weights:8X} {least:3} {expires:10}\n");
    }
    Tables::read(users.as_bytes(), ads.as_bytes()).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_of_the_groups_in_common_are_added_up() {
        // Gender, age and the second interest are common; the region is another.
        let own = [(7, 0x1120_0001, 0x0005_4321, 10, 99)];
        let tables = tables(0x1110_0401, &own);
        let found = Found { ad: 7, weight: 5 + 4 + 1, expires_s: 99 };
        assert_eq!(tables.choose(0, 3), Some(found));
        assert_eq!(tables.choose(0, 7), Some(found), "once around");
        assert_eq!(tables.choose(1, 3), None, "no such user");
    }

    #[test]
    fn the_scan_begins_after_the_last_ad_and_wraps() {
        let all = 0x3fff_ffff;
        let tables = tables(all, &[(2, all, 0x1_1111, 5, 0), (300, all, 0x1_1111, 6, 0)]);
        assert_eq!(tables.choose(0, 10).map(|found| found.ad), Some(2), "5 is less than 6");
        assert_eq!(tables.choose(0, 359).map(|found| found.ad), Some(2));
    }

    #[test]
    fn wrong_tables_are_told() {
        let users = b"    0 3FFFFFFF\n";
        assert!(Tables::read(users, b"x").unwrap_err().contains("no whole records of 39"));
        assert!(Tables::read(users, b"").unwrap_err().contains("has 0 ads"));
        let wrong = Tables::read(b"    1 3FFFFFFF\n", b"").unwrap_err();
        assert_eq!(wrong, "User.Personality: record 0 is wrong");
    }
}
