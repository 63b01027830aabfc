// SPDX-License-Identifier: Apache-2.0
// peer_h2o.cpp - h2o. It answers with files, a fixed one or one a key, in tmpfs. It opens a file once for all requests
// that one turn of its loop meets, and not again until the next; its other way, a handler in mruby, interprets code for
// each request.
#include <unistd.h>

#include "http/subject.hpp"

namespace holdfast::bench::http {

namespace {

std::string version_of(const site& where) {
    const std::string text = output_of({.arguments = {find_program(where, "h2o"), "--version"},
                                        .environment = {library_path(where)},
                                        .cores = {},
                                        .log = where.scratch / "h2o_version.log"});
    return text.substr(0, text.find('\n'));
}

void write_answers(const site& where, answer_kind kind, const std::filesystem::path& folder) {
    std::filesystem::create_directories(folder);
    if (kind == answer_kind::computed) return write_file(folder / "answer", json_of(where.records.front()));
    for (const record& r : where.records) write_file(folder / std::to_string(r.id), json_of(r));
}

std::string configuration(const site& where, answer_kind kind, std::uint16_t port,
                          const std::filesystem::path& answers) {
    std::string text = ::geteuid() == 0 ? "user: root\n" : "";
    text += "num-threads: " + std::to_string(where.server_cores.size()) +
            "\nmax-connections: 4096\nhttp1-request-timeout: 600\n";
    text += "http1-upgrade-to-http2: OFF\nsend-server-name: OFF\ntcp-fastopen: 0\n";
    text += "file.etag: OFF\nfile.mime.setdefaulttype: application/json\nheader.set: \"Cache-Control: no-store\"\n";
    text += "listen:\n  host: 127.0.0.1\n  port: " + std::to_string(port) + "\nhosts:\n  default:\n    paths:\n";
    if (kind == answer_kind::computed)
        text += "      \"/v1\":\n        file.file: " + (answers / "answer").string() + "\n";
    else
        text += "      \"/v1/tables/" + where.table + "\":\n        file.dir: " + answers.string() + "\n";
    return text;
}

running_server start(const site& where, answer_kind kind) {
    const auto folder = where.scratch / "h2o";
    const auto answers = folder / (kind == answer_kind::computed ? "one" : "lookup");
    write_answers(where, kind, answers);
    running_server server;
    server.port = free_port();
    write_file(folder / "h2o.conf", configuration(where, kind, server.port, answers));
    server.process = std::make_unique<child_process>(
        child_options{.arguments = {find_program(where, "h2o"), "-m", "worker", "-c", (folder / "h2o.conf").string()},
                      .environment = {library_path(where)},
                      .cores = where.server_cores,
                      .log = folder / "log"});
    return server;
}

}  // namespace

subject h2o() {
    return {
        .name = "h2o",
        .how = {{answer_kind::computed, "one static file in tmpfs, opened once a turn of its loop; it cannot compute"},
                {answer_kind::lookup, "a static file a key, in tmpfs; no JSON is written"}},
        .version = version_of,
        .start = start};
}

}  // namespace holdfast::bench::http
