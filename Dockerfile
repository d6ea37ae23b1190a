# CRLC Studio without a GPU. Build: docker build -t crlc-studio .   For CUDA, add:
#   --build-arg TORCH_INDEX=https://pypi.org/simple
FROM python:3.12-slim AS build
WORKDIR /source
COPY pyproject.toml requirements.txt README.md LICENSE ./
COPY crlc ./crlc
COPY app ./app
COPY assets ./assets
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
# In this order, so that a change of the code installs no packages again. Not pinned, as in requirements.txt.
# hadolint ignore=DL3013
RUN python -m pip install --no-cache-dir torch torchvision --index-url "$TORCH_INDEX"
COPY requirements.txt /requirements.txt
RUN python -m pip install --no-cache-dir -r /requirements.txt
COPY --from=build /wheels /wheels
RUN python -m pip install --no-cache-dir --no-deps /wheels/*.whl \
    && useradd --create-home --uid 1000 crlc \
    && mkdir /workspace /images \
    && chown crlc /workspace
USER 1000
ENV CRLC_WORKSPACE=/workspace
VOLUME /workspace
EXPOSE 8501
# Without the token every request is refused, so only the port is checked.
HEALTHCHECK --start-period=60s CMD ["python", "-c", "import socket; socket.create_connection(('127.0.0.1', 8501), 5)"]
# Not only this computer: the app therefore demands the token that it prints.
ENTRYPOINT ["crlc", "app", "--no-browser", "--host", "0.0.0.0", "--port", "8501"]
