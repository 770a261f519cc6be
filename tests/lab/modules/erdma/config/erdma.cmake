# SPDX-License-Identifier: GPL-3.0-or-later
# Whether the driver is built with what compat mode needs; the vendor's build asks for it in the same way.
if(ENABLE_MAD)
  set(MAD 1)
else()
  set(MAD 0)
endif()
