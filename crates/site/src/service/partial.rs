//! Answers that are not the whole of a file: conditional requests and ranges (RFC 9110, sections 13
//! and 14).

use flyball_http::conditional::{self, Verdict};
use flyball_http::range::{self, ByteRange, Multipart, Ranges};
use flyball_http::{Fields, Name, Now, Request, Segment, Status};

use super::file_answers::part_of_body;
use super::{Body, Site};
use crate::entry::FileEntry;

/// The answer to a conditional or range request for a file of this media type; `None` when it is a
/// plain 200 after all.
pub(super) fn conditional_answer(
    entry: &FileEntry,
    served: &Site,
    request: &Request<'_>,
    media_type: &[u8],
    fields: &mut Fields,
    now: &Now,
) -> Option<(Status, Body<'static>)> {
    let validators = entry.validators();
    fields.clear();
    Some(match conditional::evaluate(request, &validators) {
        Verdict::NotModified => {
            fields.append(entry.shared_fields());
            (Status::NOT_MODIFIED, Body::Empty)
        }
        Verdict::Failed => {
            let status = Status::PRECONDITION_FAILED;
            (status, served.add_refusal(request, status, fields))
        }
        Verdict::Proceed => {
            // What is decoded while it is sent has a length that is known at its end.
            if entry.is_decoded() || !conditional::range_applies(request, &validators, now.unix()) {
                return None;
            }
            match range::requested(request, entry.len(), served.settings.routes.files.ranges_max) {
                Ranges::Whole => return None,
                Ranges::Unsatisfiable => unsatisfiable(entry, served, request, fields),
                Ranges::Parts(parts) => partial(entry, media_type, &parts, fields, now),
            }
        }
    })
}

fn unsatisfiable(
    entry: &FileEntry,
    served: &Site,
    request: &Request<'_>,
    fields: &mut Fields,
) -> (Status, Body<'static>) {
    fields.add_with(Name::ContentRange, |text| range::write_unsatisfied(entry.len(), text));
    let status = Status::RANGE_NOT_SATISFIABLE;
    (status, served.add_refusal(request, status, fields))
}

/// RFC 9110, section 15.3.7: one range as it is, several as multipart/byteranges.
fn partial(
    entry: &FileEntry,
    media_type: &[u8],
    parts: &[ByteRange],
    fields: &mut Fields,
    now: &Now,
) -> (Status, Body<'static>) {
    fields.append(entry.shared_fields());
    if let [range] = parts {
        let write = |text: &mut Vec<u8>| range::write_content_range(*range, entry.len(), text);
        fields.add_with(Name::ContentRange, write);
        fields.add(Name::ContentType, media_type);
        fields.append(entry.coding_fields());
        fields.add_shown(Name::ContentLength, range.end - range.start);
        return (Status::PARTIAL_CONTENT, part_of_body(entry, *range));
    }
    let seed = now.unix_ms() ^ entry.stamp.inode << 32 ^ entry.stamp.size;
    let multipart = Multipart::new(seed, media_type, entry.len(), parts);
    fields.add_with(Name::ContentType, |text| multipart.write_content_type(text));
    fields.append(entry.coding_fields());
    fields.add_shown(Name::ContentLength, multipart.content_length());
    let mut segments = Vec::with_capacity(parts.len() * 2 + 1);
    for (index, range) in parts.iter().enumerate() {
        let mut head = Vec::new();
        multipart.part_head(index, &mut head);
        segments.push(Segment::Bytes(head.into()));
        match part_of_body(entry, *range) {
            Body::Bytes(bytes) => segments.push(Segment::Bytes(bytes)),
            Body::File { file, offset, len } => {
                segments.push(Segment::File { file, offset, len });
            }
            _ => {}
        }
    }
    let mut closing = Vec::new();
    multipart.closing(&mut closing);
    segments.push(Segment::Bytes(closing.into()));
    (Status::PARTIAL_CONTENT, Body::Parts(segments))
}
