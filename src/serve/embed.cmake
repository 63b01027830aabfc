# SPDX-License-Identifier: Apache-2.0
# cmake -Dinput=FILE -Doutput=FILE -P embed.cmake: writes dashboard_html() with the bytes of the input.
file(READ "${input}" hex HEX)
string(LENGTH "${hex}" digits)
math(EXPR bytes "${digits} / 2")
string(REGEX REPLACE "(..)" "0x\\1," listed "${hex}")
string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" listed "${listed}")
file(WRITE "${output}" "// Made from web/dashboard.html.
#include \"serve/dashboard.hpp\"

namespace holdfast::serve {

static const unsigned char page[] = {
${listed}};

std::string_view dashboard_html() noexcept { return {reinterpret_cast<const char*>(page), ${bytes}}; }

}  // namespace holdfast::serve
")
