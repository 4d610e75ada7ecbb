//! Answers that are not the whole of a file: conditional requests and ranges (RFC 9110, sections 13
//! and 14).

use flyball_http::conditional::{self, Verdict};
use flyball_http::range::{self, ByteRange, Multipart, Ranges};
use flyball_http::{Now, Request, Segment, Status, h1};

use super::file_answers::part_of_body;
use super::{File, Site};
use crate::entry::FileEntry;

/// The answer to a conditional or range request for a file of this media type; `None` when it is a
/// plain 200 after all.
pub(super) fn conditional_answer(
    entry: &FileEntry,
    served: &Site,
    request: &Request<'_>,
    media_type: &[u8],
    fields: &mut Vec<u8>,
    now: &Now,
) -> Option<(Status, h1::Body<File>)> {
    let validators = entry.validators();
    fields.clear();
    Some(match conditional::evaluate(request, &validators) {
        Verdict::NotModified => {
            fields.extend_from_slice(entry.shared_fields());
            fields.extend_from_slice(b"\r\n");
            (Status::NOT_MODIFIED, h1::Body::Empty)
        }
        Verdict::Failed => {
            let status = Status::PRECONDITION_FAILED;
            (status, served.write_refusal(request, status, fields))
        }
        Verdict::Proceed => {
            if !conditional::range_applies(request, &validators, now.unix()) {
                return None;
            }
            match range::requested(request, entry.len()) {
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
    fields: &mut Vec<u8>,
) -> (Status, h1::Body<File>) {
    fields.extend_from_slice(b"Content-Range: ");
    range::write_unsatisfied(entry.len(), fields);
    fields.extend_from_slice(b"\r\n");
    let status = Status::RANGE_NOT_SATISFIABLE;
    (status, served.write_refusal(request, status, fields))
}

/// RFC 9110, section 15.3.7: one range as it is, several as multipart/byteranges.
fn partial(
    entry: &FileEntry,
    media_type: &[u8],
    parts: &[ByteRange],
    fields: &mut Vec<u8>,
    now: &Now,
) -> (Status, h1::Body<File>) {
    fields.extend_from_slice(entry.shared_fields());
    if let [range] = parts {
        fields.extend_from_slice(b"Content-Range: ");
        range::write_content_range(*range, entry.len(), fields);
        fields.extend_from_slice(b"\r\n");
        fields.extend_from_slice(b"Content-Type: ");
        fields.extend_from_slice(media_type);
        fields.extend_from_slice(b"\r\n");
        fields.extend_from_slice(entry.coding_fields());
        let length = format!("Content-Length: {}\r\n\r\n", range.end - range.start);
        fields.extend_from_slice(length.as_bytes());
        return (Status::PARTIAL_CONTENT, part_of_body(entry, *range));
    }
    let seed = now.unix_ms() ^ entry.stamp.inode << 32 ^ entry.stamp.size;
    let multipart = Multipart::new(seed, media_type, entry.len(), parts);
    fields.extend_from_slice(b"Content-Type: ");
    multipart.write_content_type(fields);
    fields.extend_from_slice(b"\r\n");
    fields.extend_from_slice(entry.coding_fields());
    let length = format!("Content-Length: {}\r\n\r\n", multipart.content_length());
    fields.extend_from_slice(length.as_bytes());
    let mut segments = Vec::with_capacity(parts.len() * 2 + 1);
    for (index, range) in parts.iter().enumerate() {
        let mut head = Vec::new();
        multipart.part_head(index, &mut head);
        segments.push(Segment::Bytes(head.into()));
        match part_of_body(entry, *range) {
            h1::Body::Bytes(bytes) => segments.push(Segment::Bytes(bytes)),
            h1::Body::File { file, offset, len } => {
                segments.push(Segment::File { file, offset, len });
            }
            _ => {}
        }
    }
    let mut closing = Vec::new();
    multipart.closing(&mut closing);
    segments.push(Segment::Bytes(closing.into()));
    (Status::PARTIAL_CONTENT, h1::Body::Parts(segments))
}
