# SPDX-License-Identifier: Apache-2.0
# holdfast_whole(<variable> <name> <source>...): in builds made once and whole (HOLDFAST_UNITY), one source in place of these test sources of the
# current folder; elsewhere they themselves. What they include and instantiate is then compiled once, a third to a half of the time. CMake's own
# unity builds put sources together as they are, and the unnamed namespace of one would meet that of another: here each has a name.
function(holdfast_whole result name)
  list(LENGTH ARGN many)
  if(NOT HOLDFAST_UNITY OR many LESS 2)
    set(${result} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  set(whole "${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp")
  set(script "${PROJECT_SOURCE_DIR}/cmake/whole.cmake")
  add_custom_command(OUTPUT "${whole}"
    COMMAND "${CMAKE_COMMAND}" "-Doutput=${whole}" "-Dfolder=${CMAKE_CURRENT_SOURCE_DIR}" -P "${script}" -- ${ARGN}
    DEPENDS ${ARGN} "${script}" COMMENT "Putting ${many} sources together: ${name}" VERBATIM)
  set_source_files_properties("${whole}" PROPERTIES INCLUDE_DIRECTORIES "${CMAKE_CURRENT_SOURCE_DIR}"
    COMPILE_OPTIONS "$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>")  # g++ inlines more of it, and then says so of what each alone has not
  set(${result} "${whole}" PARENT_SCOPE)
endfunction()
