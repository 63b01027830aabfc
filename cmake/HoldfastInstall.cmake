# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` lays down: the headers and a CMake package, which offers holdfast::holdfast and, when they were built, the
# components net and perf_test as holdfast::net and holdfast::perf_test; pkg-config files for each; the program. An export set for each,
# so that the core can be had without the rest.
include(CMakePackageConfigHelpers)
set(HOLDFAST_CMAKE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/holdfast")

function(holdfast_install_pkg_config name)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in" "${PROJECT_BINARY_DIR}/${name}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${name}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endfunction()

# pkg-config files find their prefix from their own place, so that an installed tree may be moved.
file(RELATIVE_PATH HOLDFAST_PC_PREFIX "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")

install(TARGETS holdfast EXPORT holdfast-core FILE_SET HEADERS FILE_SET parts)
install(EXPORT holdfast-core NAMESPACE holdfast:: DESTINATION "${HOLDFAST_CMAKE_DIR}")
holdfast_install_pkg_config(holdfast)

set(HOLDFAST_NET_REQUIRES "")
if(TARGET holdfast_net)
  if(HOLDFAST_NET_TLS)  # a static library's private needs are its users' too
    string(APPEND HOLDFAST_NET_REQUIRES ", openssl >= 3.0")
  endif()
  if(HOLDFAST_NET_DEFLATE)
    string(APPEND HOLDFAST_NET_REQUIRES ", zlib")
  endif()
  set_target_properties(holdfast_net PROPERTIES EXPORT_NAME net)
  get_target_property(header_sets holdfast_net INTERFACE_HEADER_SETS)
  if(header_sets)
    install(TARGETS holdfast_net EXPORT holdfast-net FILE_SET HEADERS)
  else()
    install(TARGETS holdfast_net EXPORT holdfast-net)
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/holdfast/net" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/holdfast")
  endif()
  install(EXPORT holdfast-net NAMESPACE holdfast:: DESTINATION "${HOLDFAST_CMAKE_DIR}")
  holdfast_install_pkg_config(holdfast-net)
endif()

if(TARGET holdfast_perf_test)
  get_target_property(linked holdfast_perf_test LINK_LIBRARIES)
  set(HOLDFAST_PERF_TEST_NEEDS_SIMDJSON FALSE)  # a static library's private needs are its users' too
  set(HOLDFAST_PERF_TEST_REQUIRES "")
  if("simdjson::simdjson" IN_LIST linked)
    set(HOLDFAST_PERF_TEST_NEEDS_SIMDJSON TRUE)
    set(HOLDFAST_PERF_TEST_REQUIRES ", simdjson")
  endif()
  install(TARGETS holdfast_perf_test EXPORT holdfast-perf_test FILE_SET HEADERS FILE_SET gtest_headers)
  install(EXPORT holdfast-perf_test NAMESPACE holdfast:: DESTINATION "${HOLDFAST_CMAKE_DIR}")
  holdfast_install_pkg_config(holdfast-perf_test)
endif()

foreach(program IN ITEMS holdfast_cli holdfast_cli_bench)
  if(TARGET ${program})
    install(TARGETS ${program})
  endif()
endforeach()
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/holdfast-config.cmake.in" "${PROJECT_BINARY_DIR}/holdfast-config.cmake"
  INSTALL_DESTINATION "${HOLDFAST_CMAKE_DIR}")
# Before 1.0 a new minor version may break users.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/holdfast-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/holdfast-config.cmake" "${PROJECT_BINARY_DIR}/holdfast-config-version.cmake"
  DESTINATION "${HOLDFAST_CMAKE_DIR}")
