// SPDX-License-Identifier: Apache-2.0
// response.hpp - what a handler answers.
//
// The server adds Date, Content-Length and Connection itself, and leaves the body out where HTTP forbids one (HEAD,
// 204, 304), so a handler answers HEAD as it answers GET.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/net/body_reader.hpp"
#include "holdfast/net/channel.hpp"
#include "holdfast/net/file_options.hpp"
#include "holdfast/net/websocket_frame.hpp"

namespace holdfast::net {

class request;
class file_places;
struct file_answer;

struct websocket_options {
    std::span<const std::string_view>
        protocols{};            ///< subprotocols spoken here; the client's first of them is agreed on
    websocket_limits limits{};  ///< of what the client may send
    /// Agrees with clients that offer it (all browsers do) to deflate messages, both ways (RFC 7692), each by itself:
    /// an idle connection takes no more memory for it, a loop 0.4 MB (websocket_deflater.hpp). The loop does the work:
    /// what comes may inflate to 1032 times its bytes, up to limits.message_bytes_max.
    bool permessage_deflate = false;
    std::uint32_t deflate_bytes_min = 64;  ///< shorter messages are sent as they are
};

/// A header field that is looked at once, for what many responses have alike.
///
/// Threads: any number; nothing of it changes.
class prepared_header {
 public:
    /// Throws: error(invalid_argument), as response::header() with a name and a value.
    prepared_header(std::string_view name, std::string_view value);

 private:
    friend class response;
    std::string line_;  // in wire form
};

/// One response in the making. Begins as 200 without fields or body. Reused from request to request by its loop.
///
/// Threads: one at a time.
class response {
 public:
    /// Sets the status code. Throws: error(invalid_argument) outside 200..599 (interim replies are the server's).
    response& status(int code);
    [[nodiscard]] int status() const noexcept { return status_; }

    /// Adds a header field; the same name twice makes two fields.
    /// Throws: error(invalid_argument) for a name that is not a token, a value with a control character (CR and LF
    /// would let a value forge fields), and the fields the server owns: Content-Length, Transfer-Encoding, Connection,
    /// Date.
    response& header(std::string_view name, std::string_view value);
    /// Adds one that was looked at when it was made. Cost: a copy.
    response& header(const prepared_header& field) { return fields_.append(field.line_), *this; }

    /// Replaces the body by a copy.
    response& body(std::string_view text);
    response& body(const char* text) { return body(std::string_view(text)); }
    /// Replaces the body by `text`, without a copy.
    response& body(std::string&& text) noexcept;
    /// The body itself, to append to. Keeps its memory from one response of the loop to the next.
    [[nodiscard]] std::string& body_buffer() noexcept { return body_; }
    [[nodiscard]] const std::string& body() const noexcept { return body_; }

    /// Makes this an RFC 9457 problem: status, Content-Type application/problem+json, and a body naming status, title
    /// and `detail`. Drops fields and body set before.
    response& problem(int code, std::string_view detail);

    /// Answers with a file, as the request's conditions and ranges ask: it is opened once, and looked at once; what is
    /// sent is what it was long then. Sets ETag, Last-Modified, Accept-Ranges, Content-Type and Content-Range; other
    /// fields set before stay, but where a problem is answered. Conditions and ranges are those of a GET or HEAD that
    /// would be 200: set another status before to have the file sent with it whole. Body, problem or another file set
    /// afterwards take its place.
    ///
    /// The file goes out in pieces as the client takes them, behind the responses before it, and stays open until then.
    /// One that becomes shorter meanwhile ends the connection; one that becomes longer is sent as long as it was.
    /// Reading blocks the loop where a file is not in the page cache. It counts in server_options::files_max: in a
    /// handler's response from this call on, in another one from when a channel is answered with it, which is a 503
    /// where that is one too many.
    ///
    /// Returns: whether it is what was asked for; else this response says so already (404, 403, 503, 500), which may be
    /// changed. Throws: std::bad_alloc; error(invalid_argument) for a content type that is none.
    /// Cost: four system calls for a small file: open, fstat, pread, close.
    file_outcome file(const request& asked, const std::string& path, const file_options& options = {});
    /// The same with a file that is open already, which this takes and closes, also when it throws. Not by name, so
    /// `folder` and `follow_links` mean nothing.
    file_outcome file(const request& asked, int descriptor, const file_options& options = {});
    /// Whether a file is the body.
    [[nodiscard]] bool has_file() const noexcept { return file_ != nullptr; }

    /// Closes the connection after this response.
    response& close() noexcept { return close_ = true, *this; }
    [[nodiscard]] bool closes() const noexcept { return close_; }

    /// Leaves the answer for later: the handler returns, and whoever has the channel calls answer(). What stands in
    /// this response is dropped, and the request is gone when the handler returns: copy what the answer needs. Throws:
    /// error(invalid_argument) when this is not the response a server passed to its running handler, or when it has a
    /// channel already. Cost: a few allocations.
    [[nodiscard]] channel defer(channel_options options = {});

    /// Begins a stream: status and fields go out as they are when the handler returns, without the body, and then each
    /// message as it comes: chunked in HTTP/1.1, until the end of the connection in HTTP/1.0. A HEAD gets the head
    /// alone and ends the channel. Throws, cost: as defer().
    [[nodiscard]] channel stream(channel_options options = {});

    /// Has the body of the request handed over in pieces (body_reader.hpp), from when the handler has returned. It goes
    /// with defer() or stream(); an answer that is given at once ends it. A request without content ends at once, as
    /// complete. Throws: error(invalid_argument) when this is not the response a server passed to its running handler,
    /// has a reader already, or the body is here as a whole. Cost: a few allocations.
    body_reader receive_body(body_options options);

    /// Accepts a request to become a WebSocket connection: 101 goes out when the handler returns, then messages go both
    /// ways by the channel. A request that does not qualify is refused instead: this response says so (400, 405 or 426)
    /// and the channel is none, so look at its is_open(). Fields set before go with neither.
    ///
    /// Browsers let any page connect, with the visitor's cookies: who trusts those has to look at Origin first.
    /// Throws, cost: as defer(); error(unsupported) for permessage_deflate in a build without zlib.
    [[nodiscard]] channel websocket(const request& asked, channel_options options = {},
                                    const websocket_options& chosen = {});

    /// A number of the caller's that response_event hands back, so that routes can be counted apart.
    response& route(int label) noexcept { return route_ = label, *this; }
    [[nodiscard]] int route() const noexcept { return route_; }

    /// The header fields so far, in wire form.
    [[nodiscard]] std::string_view fields() const noexcept { return fields_; }

    /// Back to a bare 200; keeps its memory, up to a bound.
    void reset() noexcept;

 private:
    friend class server_core;

    // The server whose handler runs. It stays with this object: a response that was copied or moved from it has none.
    struct loop_of_handler {
        loop_of_handler() noexcept = default;
        loop_of_handler(const loop_of_handler& /*other*/) noexcept {}
        loop_of_handler& operator=(const loop_of_handler& /*other*/) noexcept { return *this; }
        class server_core* core = nullptr;   // on the loop, while it runs
        std::shared_ptr<file_places> files;  // on the loop, or in its pool
    };

    loop_of_handler loop_;
    std::string fields_;  // "Name: value\r\n" each
    std::string body_;
    std::shared_ptr<const file_answer> file_;  // the body, in place of body_
    int status_ = 200;
    int route_ = 0;
    bool close_ = false;
};

/// The reason phrase of a status code; empty for one without a registered phrase.
[[nodiscard]] std::string_view reason_phrase(int status) noexcept;

/// Appends `text` as a JSON string with its quotes; bytes that are not UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view text);

}  // namespace holdfast::net
