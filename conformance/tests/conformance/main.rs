//! What is true of every architecture. Each test body is written once: it sends raw bytes and
//! compares raw bytes, and is mounted once per architecture.

#![forbid(unsafe_code)]

#[macro_use]
mod mount;
mod access;
mod access_log;
mod arrival;
mod closed_files;
mod coded_streams;
mod codings;
mod conditionals;
mod deadlines;
mod draining;
mod etags;
mod host_roots;
mod hosts;
mod keep_alive;
mod limits;
mod listings;
mod methods;
mod overload;
mod paths;
mod pipelining;
mod ranges;
mod records;
mod refusals;
mod reloads;
mod requests;
mod routes;
mod secret_files;
mod smuggling;
mod streams;
mod unix_sockets;
mod uploads;
mod variants;

for_each_architecture! {
    // Connections and how requests come.
    [
        keep_alive: [
            a_plain_answer_is_exactly_this,
            http_1_1_is_kept_without_being_asked,
            http_1_1_is_closed_when_asked,
            unknown_connection_options_change_nothing,
            http_1_0_is_closed_unless_it_asks,
            http_1_0_is_kept_when_it_asks_and_is_told_so,
            errors_that_leave_no_doubt_keep_the_connection,
            nothing_is_answered_after_a_close,
            a_client_that_goes_between_requests_is_let_go,
            empty_lines_before_a_request_are_passed_over,
            an_empty_file_is_a_whole_answer,
        ],
        pipelining: [
            three_in_one_segment_are_answered_in_order,
            more_than_one_gathering_holds_are_answered_in_order,
            it_does_not_matter_where_a_batch_is_split,
            answers_of_every_kind_keep_their_order,
            large_bodies_come_whole_between_small_ones,
            a_batch_before_a_half_close_is_answered_whole,
            a_request_cut_short_after_a_batch_is_dropped,
            a_refusal_in_a_batch_ends_it,
        ],
        arrival: [
            a_request_may_be_split_at_every_byte,
            a_request_may_come_byte_by_byte,
            a_refusal_does_not_depend_on_the_split,
            a_large_file_comes_byte_for_byte,
            a_slow_reader_gets_a_large_file_whole,
            many_downloads_at_once_are_kept_apart,
            a_half_close_after_the_request_changes_nothing,
            a_client_that_closed_its_side_and_pauses_gets_the_whole_file,
            a_half_closed_client_that_reads_nothing_holds_up_no_other,
            a_half_closed_client_that_reads_nothing_keeps_no_processor_busy,
            a_half_closed_client_gets_the_whole_file_after_standstills,
            a_slow_download_is_not_cut_by_a_reload,
            a_half_close_within_a_head_is_let_go,
            a_reset_in_a_download_disturbs_nobody_else,
            a_client_that_pipelines_without_reading_is_held_back,
        ],
        conditionals: [
            a_304_has_its_validators_and_no_content,
            if_none_match_compares_weakly,
            if_match_compares_strongly,
            dates_are_compared_in_whole_seconds,
            the_order_of_precedence_holds,
            what_does_not_exist_has_no_preconditions,
            if_range_lets_a_range_through_only_when_it_matches,
            a_date_in_if_range_is_strong_once_it_is_a_minute_old,
            a_file_from_the_future_has_changed_no_later_than_the_date,
        ],
        etags: [
            copies_of_a_file_have_one_tag_that_holds_at_each_of_them,
            representations_of_one_resource_never_share_a_tag,
            a_time_that_many_files_have_makes_no_tag_alone,
            a_tag_may_be_that_of_the_inode_or_none,
        ],
        deadlines: [
            a_last_answer_behind_a_full_socket_has_an_end,
            every_wait_for_a_client_has_an_end,
            what_came_in_time_is_answered_after_a_standstill,
            an_end_in_order_leaves_a_late_reader_its_answer,
        ],
        draining: [
            a_stopping_server_finishes_what_is_under_way,
            a_stopping_server_does_not_wait_for_ever,
            what_came_before_the_end_of_drain_is_answered_after_a_standstill,
            what_has_begun_when_the_server_stops_is_finished,
            what_has_begun_at_a_reload_is_finished,
            what_has_begun_unread_when_the_server_stops_is_finished,
        ],
    ]
    // What requests carry and answers bring, and what is refused.
    [
        ranges: [
            one_range_is_sent_as_it_is,
            several_ranges_come_as_parts,
            overlapping_and_near_ranges_become_one,
            what_no_byte_satisfies_is_416,
            what_is_not_a_range_is_ignored,
            more_ranges_than_the_limit_are_ignored,
            as_many_ranges_as_may_be_come_whole,
            a_range_with_another_method_is_ignored,
            ranges_of_a_large_file,
        ],
        streams: [
            a_body_of_unknown_length_comes_in_chunks,
            http_1_0_gets_it_until_the_connection_ends,
            head_has_the_fields_and_no_body,
            requests_behind_it_wait_for_its_end,
            a_slow_reader_gets_it_whole,
            a_client_that_goes_away_disturbs_nobody_else,
            many_at_once_are_kept_apart,
            an_unread_request_body_makes_it_the_last_answer,
            a_stopping_server_finishes_it,
            http_1_0_is_told_that_it_was_cut_short,
        ],
        host_roots: [
            each_directory_that_a_host_names_is_a_site,
            a_directory_that_cannot_be_served_closes_no_other,
            what_is_said_of_the_site_holds_for_each_of_its_hosts,
        ],
        limits: [
            so_many_connections_of_a_client_are_answered_at_a_path,
            so_many_connections_of_all_clients_are_answered_at_a_path,
            a_place_is_kept_while_the_kernel_could_hold_the_answer,
            a_client_asks_so_often_for_a_path,
            a_connection_has_the_pace_of_the_path_that_it_asks_for,
        ],
        refusals: [
            a_refusal_never_ends_the_next_connection,
            a_malformed_request_line_is_400,
            tls_where_plain_text_is_spoken_ends_the_connection,
            a_malformed_field_line_is_400,
            a_host_that_is_missing_or_doubtful_is_400,
            a_length_that_is_not_one_number_is_400,
            framing_that_is_ambiguous_is_400,
            a_transfer_coding_other_than_chunked_is_501,
            another_version_is_505,
            another_expectation_is_417,
            a_target_longer_than_the_limit_is_414,
            a_head_larger_than_the_limits_is_431,
            a_body_longer_than_the_limit_is_413,
            methods_that_a_file_does_not_know,
            a_refused_client_that_goes_on_sending_reads_the_refusal,
        ],
        smuggling: [
            the_hidden_request_would_be_answered_if_it_were_believed,
            two_framings_never_hide_a_request,
            unknown_codings_never_hide_a_request,
            broken_chunks_never_hide_a_request,
            broken_chunks_that_nobody_wants_never_hide_a_request,
            extensions_and_trailers_are_bounded,
            trailers_are_not_believed,
        ],
        uploads: [
            a_body_with_a_length_is_streamed,
            a_chunked_body_is_streamed,
            empty_bodies_and_small_ones,
            a_slow_client_is_waited_for,
            a_chunked_body_may_be_split_anywhere,
            requests_pipelined_behind_a_body_are_answered,
            an_upload_on_a_connection_that_closes,
            a_client_that_expects_it_is_told_to_continue,
            http_1_0_is_never_told_to_continue,
            a_client_that_expects_a_refusal_gets_it_before_it_sends,
            a_body_that_nobody_wants_is_drained,
            a_body_that_is_too_long_to_drain_costs_the_connection,
            a_client_that_first_sends_a_body_that_nobody_wants_gets_the_whole_answer,
            a_client_that_sends_all_before_it_reads_sees_why_it_is_refused,
            an_upload_that_breaks_off_is_forgotten,
            many_uploads_at_once_are_kept_apart,
        ],
    ]
    // Files and where they are found, and for whom.
    [
        methods: [
            head_has_the_fields_of_get_and_no_body,
            head_of_a_listing_has_no_body,
            options_tells_what_is_allowed,
            an_absolute_target_is_a_path_and_a_host,
        ],
        hosts: [
            the_site_is_chosen_by_host,
            one_site_does_not_answer_with_the_files_of_another,
            a_host_without_a_site_is_421,
            a_listener_serves_the_hosts_that_it_names_alone,
        ],
        unix_sockets: [
            a_unix_socket_serves_what_an_address_does,
            rules_tell_clients_of_a_unix_socket_from_those_of_addresses,
            a_slow_download_over_a_unix_socket_is_not_cut_by_a_reload,
        ],
        closed_files: [
            what_may_not_be_read_is_403_and_what_has_gone_404_to_nobody_else,
        ],
        secret_files: [
            what_the_server_reads_is_sent_to_no_client_when_a_root_is_switched_to_it,
        ],
        paths: [
            names_are_decoded_and_normalised,
            a_directory_is_its_index,
            a_directory_without_a_slash_is_redirected_and_keeps_its_query,
            a_redirect_never_leads_to_another_host,
            hidden_names_are_not_there,
            a_path_above_the_root_is_400,
            broken_escapes_and_controls_are_400,
            what_is_no_separator_and_no_dot_to_the_disk_is_neither_here,
            what_is_decoded_twice_elsewhere_is_decoded_once_here,
            links_that_leave_the_root_lead_nowhere,
            names_that_cannot_be_are_not_there,
            a_listing_names_what_is_there_and_not_what_is_hidden,
        ],
        listings: [
            a_listing_is_sorted_as_the_query_says,
            a_listing_is_json_when_that_is_preferred,
            a_readme_is_shown_below,
            what_links_out_of_the_root_is_not_listed,
            what_is_answered_by_a_return_is_not_listed,
        ],
        routes: [
            redirects_lead_where_their_rules_say,
            a_redirect_may_lead_to_the_host_that_was_asked_for,
            a_path_may_say_the_type_of_its_files,
            rewrites_are_answered_in_place,
            fields_are_set_added_and_removed_by_path_and_type,
            answers_say_how_long_they_may_be_kept,
            error_pages_are_the_sites_own,
            aliases_have_roots_of_their_own,
            what_is_not_there_falls_back_when_asked,
            no_route_leads_around_a_login,
            a_directory_that_is_refused_is_not_told_by_its_slash,
            languages_are_negotiated_by_neighbours,
            a_neighbour_in_another_language_is_coded_too,
            newer_images_answer_where_they_are_taken,
            directories_of_users_are_shown,
        ],
    ]
    // What is coded, who may ask, and what is written about it.
    [
        access: [
            a_password_opens_what_it_protects,
            hashes_of_other_servers_open_what_they_protect,
            a_body_waits_for_its_password,
            logins_that_fail_are_slowed_down,
            strangers_do_not_lock_a_user_out,
            logins_that_were_tried_count_after_a_reload,
            networks_are_let_in_or_not,
            who_asks_is_whom_a_trusted_proxy_names,
            one_client_has_so_many_connections,
            one_client_asks_so_often,
            a_connection_has_its_pace,
        ],
        overload: [
            new_bodies_leave_plain_while_clients_wait_for_a_place,
            new_bodies_are_coded_although_clients_wait_where_that_is_wanted,
        ],
        codings: [
            a_text_leaves_in_the_coding_that_its_client_likes_best,
            what_nobody_asked_to_be_coded_leaves_plain,
            what_does_not_become_smaller_leaves_plain,
            bodies_beyond_what_is_held_in_memory_are_coded_too,
            head_of_a_coded_body_has_the_fields_of_get,
            conditions_are_compared_with_the_coded_body,
            a_range_is_one_of_the_plain_body,
            what_was_coded_beforehand_is_sent_unless_it_is_older,
            what_was_coded_beforehand_is_sent_in_each_coding,
            codings_are_chosen_and_switched_off_by_settings,
            a_coding_that_is_off_unless_it_is_named_is_like_the_others,
            a_file_that_was_replaced_is_never_sent_as_it_was,
            a_file_that_changes_is_never_sent_torn,
            a_cached_body_is_coded_once,
            what_costs_too_much_leaves_plain,
        ],
        coded_streams: [
            a_file_that_is_there_by_gzip_alone_answers_for_the_plain_one,
            what_is_there_by_gzip_alone_is_closed_cut_or_replaced_as_any_file,
            a_large_text_is_coded_while_it_is_sent,
            http_1_0_gets_a_coded_text_until_the_connection_ends,
            listings_and_error_pages_are_coded_too,
            of_what_is_coded_while_it_is_sent_there_are_only_so_many,
        ],
        variants: [
            caches_do_not_change_an_answer,
            caching_policies_do_not_change_an_answer,
            the_way_to_send_does_not_change_an_answer,
            the_way_to_accept_does_not_change_an_answer,
            the_mechanisms_do_not_change_an_answer,
            heads_are_padded_and_anonymous_when_asked,
            switches_for_measurements_do_not_change_an_answer,
        ],
        access_log: [
            who_has_reset_its_connection_keeps_its_address,
            every_request_has_exactly_its_line,
            fields_are_chosen_and_hostile_bytes_break_no_line,
            what_is_pipelined_is_logged_once_each,
            a_line_says_how_its_answer_ended_and_how_much_of_it_was_sent,
            who_leaves_within_a_download_is_logged_with_what_it_took,
            who_takes_too_long_is_logged_as_that,
            a_line_tells_when_its_answer_began_and_ended,
            who_has_waited_in_the_queue_is_logged_with_that_time,
            a_trusted_proxy_tells_who_connects,
            a_header_of_a_stranger_and_a_missing_one_are_refused,
            fields_of_trusted_proxies_tell_who_asks,
            who_has_logged_in_has_a_name,
        ],
    ]
    tls [
        records: [
            a_handshake_and_requests_may_come_byte_by_byte,
            a_handshake_may_be_split_anywhere,
            a_changed_byte_ends_its_own_connection_alone,
            an_end_within_a_handshake_or_a_record_is_let_go,
            who_goes_within_a_download_gets_no_more_of_it,
        ] full [
            a_handshake_may_be_split_at_every_byte,
            a_changed_byte_at_every_place_is_no_harm_to_others,
        ],
        reloads: [
            a_reload_finishes_what_is_under_way_and_sessions_are_resumed,
            who_is_idle_at_the_end_of_drain_is_told_that_nothing_follows,
        ],
        access_log: [
            a_line_says_how_its_answer_ended_and_how_much_of_it_was_sent,
            who_leaves_within_a_download_is_logged_with_what_it_took,
            who_takes_too_long_is_logged_as_that,
            a_line_tells_when_its_answer_began_and_ended,
            who_has_waited_in_the_queue_is_logged_with_that_time,
        ],
    ]
}

#[test]
fn every_body_is_mounted_on_every_architecture_and_with_every_mechanism() {
    mount::assert_none_is_forgotten(MOUNTS);
}
